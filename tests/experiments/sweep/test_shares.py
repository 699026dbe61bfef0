"""The check of a large sweep is shared out to processes, and finds what one process does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep import shares
from flowcontrol.experiments.sweep.variants import check_points, check_variants

RATE = "stages.sink.service_rate"
RATES = "100:4000:40"


@pytest.fixture
def three_shares(monkeypatch):
    """Have 40 points be three shares; yield the processes of the two others."""
    monkeypatch.setattr(shares, "POINTS", 13)
    monkeypatch.setattr(shares, "cores", lambda: 3)
    started, start = [], shares._start

    def noted(plan, share):
        started.append(start(plan, share))
        return started[-1]

    monkeypatch.setattr(shares, "_start", noted)
    return started


def test_shares_are_all_points_in_their_order(plan):
    made = plan({RATE: RATES})
    assert shares.shares_of(made, 4) == [slice(0, 40)]
    many = plan({RATE: "1:2500:2500"}, replications=2)
    assert shares.shares_of(many, 3) == [slice(0, 833), slice(833, 1666), slice(1666, 2500)]
    assert len(shares.shares_of(many, 100)) == 5
    assert len(shares.shares_of(many, 1)) == 1


def test_what_is_shared_out_is_what_one_process_finds(plan, three_shares):
    made = plan({RATE: RATES}, replications=2)
    assert check_variants(made, shares.check_shared) == check_variants(made)
    assert [child.returncode for child in three_shares] == [0, 0]


def test_a_refusal_names_the_same_variants(plan, three_shares):
    """Points of all shares are refused, for two reasons."""
    made = plan({RATE: [*range(-5, 0), *range(1, 10), -7, -8], "duration_s": [10, -1]})
    with pytest.raises(ScenarioError) as alone:
        check_variants(made)
    with pytest.raises(ScenarioError) as shared:
        check_variants(made, shares.check_shared)
    assert shared.value.problems == alone.value.problems
    assert len(three_shares) == 1


def test_what_a_process_fails_at_is_checked_here(plan, three_shares, monkeypatch):
    monkeypatch.setattr(shares, "_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    made = plan({RATE: RATES})
    assert check_variants(made, shares.check_shared) == check_variants(made)
    assert [child.returncode for child in three_shares] == [3, 3]


def test_what_a_killed_process_leaves_is_checked_here(plan, three_shares, monkeypatch):
    noted = shares._start

    def killed(made, share):
        child = noted(made, share)
        os.kill(child.pid, signal.SIGKILL)
        return child

    monkeypatch.setattr(shares, "_start", killed)
    made = plan({RATE: RATES})
    assert check_variants(made, shares.check_shared) == check_variants(made)
    assert [child.returncode for child in three_shares] == [-signal.SIGKILL] * 2


def test_no_process_is_left_where_the_check_is_interrupted(plan, three_shares, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shares, "check_points", interrupted)
    monkeypatch.setattr(shares, "_COMMAND", ("/bin/sleep", "1000"))
    with pytest.raises(KeyboardInterrupt):
        shares.check_shared(plan({RATE: RATES}))
    assert [child.returncode for child in three_shares] == [-signal.SIGKILL] * 2


def test_a_script_without_a_guard_is_not_run_again(plan, tmp_path):
    """A child imports nothing of the caller's main module."""
    script = tmp_path / "script.py"
    script.write_text(
        "print('begins')\n"
        "from flowcontrol.experiments.base import varied_base\n"
        "from flowcontrol.experiments.sweep import shares\n"
        "from flowcontrol.experiments.sweep.plan import make_plan\n"
        "shares.POINTS, shares.cores = 5, lambda: 2\n"
        f"base = varied_base({plan({RATE: '1'}).base.mapping!r})\n"
        "made = make_plan(base, [('seed', range(1, 11))])\n"
        "assert shares.check_shared(made) == shares.check_points(made)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("begins\n", "")


def test_check_points_of_a_part(plan):
    made = plan({RATE: RATES})
    assert check_points(made, slice(7, 9)) == check_points(made)[7:9]
