"""The check of a large sweep, shared out to the cores of this machine.

A share is checked by a Python of its own that is handed the plan: it imports nothing of the
caller's main module, so a script or notebook needs no guard for it.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.variants import Checked, check_points

POINTS: Final = 1000
"""Of a share, at least: some 2 s; a process is there after one."""

_COMMAND: Final = (sys.executable, "-m", "flowcontrol.experiments.sweep.shares")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shares_of(plan: Plan, most: int) -> list[slice]:
    """Return the parts of a plan's points that are checked at the same time.

    ``most``: parts, at most.

    At least one; together all points, in their order.
    """
    count = max(1, min(most, plan.size * plan.replications // POINTS))
    ends = [plan.size * number // count for number in range(count + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def check_shared(plan: Plan) -> list[Checked]:
    """Check all points of a plan, as :func:`check_points` does, on all cores if they are many."""
    own, *others = shares_of(plan, cores())
    if not others:
        return check_points(plan)
    children = [_start(plan, share) for share in others]
    try:
        found = check_points(plan, own)
        for child, share in zip(children, others, strict=True):
            found += _result(child) or check_points(plan, share)
    finally:
        for child in children:
            _end(child)
    return found


def _start(plan: Plan, share: slice) -> subprocess.Popen[bytes]:
    """Start a process that checks a share; Ctrl-C is its parent's."""
    path = os.pathsep.join(filter(None, sys.path))
    child = subprocess.Popen(
        _COMMAND,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert child.stdin is not None
        with child.stdin:
            child.stdin.write(pickle.dumps((plan, share)))
    except OSError:  # it has ended; what it was to check is checked here
        pass
    return child


def _result(child: subprocess.Popen[bytes]) -> Sequence[Checked] | None:
    """Return what a process found; None if it failed, whatever kept it from its work."""
    assert child.stdout is not None
    data = child.stdout.read()
    if child.wait() != 0:
        return None
    found: Sequence[Checked] = pickle.loads(data)
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def main() -> None:
    """Check the share that standard input holds."""
    out = os.dup(1)
    os.dup2(2, 1)  # nothing else is to be written where the result goes
    plan, share = pickle.load(sys.stdin.buffer)
    with os.fdopen(out, "wb") as file:
        file.write(pickle.dumps(check_points(plan, share)))


if __name__ == "__main__":
    main()
