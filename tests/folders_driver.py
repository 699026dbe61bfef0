"""Starts that open one folder, killed or held up at each of their steps. Run as a process.

``python folders_driver.py OPENER FOLDER MODE LEFT`` prints what came of every step as JSON. A
step is a call that Python reports to audit hooks: opening, locking, renaming, removing. The
processes are forks of this one, which has no threads.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flowcontrol.errors import FlowControlError

STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "fcntl.flock", "shutil.rmtree"}
NAMES = {"run": "run.json", "toy": "toy.json"}

act: Callable[[int], None] | None = None
"""What to do at a step of this process; None: nothing is counted."""
step = 0


def hook(event: str, _arguments: Any) -> None:
    global step
    if act is not None and event in STEPS:
        step += 1
        act(step)


def open_run(root: Path, overwrite: bool) -> Any:
    from flowcontrol.live.folder import open_folder

    return open_folder(root, SCENARIO, named=True, overwrite=overwrite)


def open_toy(root: Path, overwrite: bool) -> Any:
    from flowcontrol.folders import Kind, open_owned

    kind = Kind("toy", "toy.json", "toy", frozenset())
    return open_owned(
        root,
        kind,
        {"toy": os.getpid()},
        is_continued=lambda found: not found["finished"],
        why_kept=lambda _: None if overwrite else "it is mine",
    )


def leave(root: Path) -> None:
    """Leave something finished in a folder, two folders deep; or no folder."""
    shutil.rmtree(root, ignore_errors=True)
    if not IS_THERE:
        return
    folder = OPEN(root, False)
    for name in ("links/a/one", "links/b", "report.html"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    folder.mark(finished=True)
    folder.close()


def tree(root: Path) -> dict[str, str]:
    """Everything in a folder but its lock; of the file that says what it is, what it says."""
    files = [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith((".lock", f".{NAMES[OPENER]}."))
    ]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def outcome(root: Path, overwrite: bool) -> tuple[str, Any]:
    """Open a folder; say how that ended."""
    try:
        return "owned", OPEN(root, overwrite)
    except FlowControlError as error:
        return "refused", str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}", None


def started(body: Callable[[], None]) -> int:
    """Start a process that does something and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(root: Path, at: int) -> bool:
    """Let a process replace a folder that is killed at a step; False if it ended before."""

    def kill(number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def body() -> None:
        global act
        act = kill
        outcome(root, True)

    return ended(started(body)) == -signal.SIGKILL


def kills(root: Path) -> list[dict[str, Any]]:
    """Kill a replacement at each step; start again, without and with leave to replace."""
    found: list[dict[str, Any]] = []
    for at in range(1, 1000):
        ends: dict[str, Any] = {}
        for overwrite in (False, True):
            leave(root)
            before = tree(root)
            is_killed = killed_at(root, at)
            left = tree(root)
            how, folder = outcome(root, overwrite)
            after = tree(root)
            kind = json.loads(after.get(NAMES[OPENER], "{}"))
            ends["replace" if overwrite else "keep"] = {
                "how": how if how != "refused" or not overwrite else folder,
                "was_whole": left == before,
                "is_whole": after == before,
                "is_new": set(after) == {NAMES[OPENER]} and kind.get("finished") is False,
            }
            if how == "owned":
                folder.close()
        if not is_killed:
            return found
        found.append({"step": at, **ends})
    raise AssertionError("a start has a thousand steps")


def pauses(root: Path) -> list[dict[str, Any]]:
    """Hold a replacement up at each step while another process replaces the same folder."""
    found: list[dict[str, Any]] = []
    for at in range(1, 1000):
        leave(root)
        arrived, arrive = os.pipe()
        wait, go = os.pipe()
        told, tell = os.pipe()

        def hold(number: int, at: int = at, arrive: int = arrive, wait: int = wait) -> None:
            if number == at:
                os.write(arrive, b"x")
                os.read(wait, 1)

        def body(hold: Any = hold, arrive: int = arrive, tell: int = tell) -> None:
            global act
            act = hold
            how, _ = outcome(root, True)
            act = None
            os.write(arrive, b"-")
            if how == "owned":
                (root / "first").write_text("first")
            os.write(tell, how.encode())

        pid = started(body)
        is_held = os.read(arrived, 1) == b"x"
        how, folder = outcome(root, True)
        if how == "owned":
            (root / "second").write_text("second")
        os.write(go, b"x")
        first = os.read(told, 1000).decode()
        after = tree(root)
        found.append({"step": at, "first": first, "second": how, "after": sorted(after)})
        if how == "owned":
            folder.close()
        assert ended(pid) == 0
        for handle in (arrived, arrive, wait, go, told, tell):
            os.close(handle)
        if not is_held:
            return found[:-1]
    raise AssertionError("a start has a thousand steps")


if __name__ == "__main__":
    OPENER, ROOT, MODE = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    IS_THERE = True
    OPEN = {"run": open_run, "toy": open_toy}[OPENER]
    if OPENER == "run":
        from flowcontrol.scenario import parse_scenario

        SCENARIO = parse_scenario(
            {
                "schema": 1,
                "name": "small",
                "duration_s": 1,
                "stages": [
                    {"name": "source", "emit_rate": 100},
                    {"name": "sink", "service_rate": 50},
                ],
                "edges": [{"from": "source", "to": "sink"}],
            }
        )
    leave(ROOT)  # everything is imported by now
    IS_THERE = sys.argv[4] == "finished"
    sys.addaudithook(hook)
    sys.stdout.write(json.dumps({"kills": kills, "pauses": pauses}[MODE](ROOT)))
