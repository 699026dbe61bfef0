"""Commits that take time: whose thread they hold, what they commit, and when rows are visible."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

COMMIT = {"fixed_ms": 200, "per_file_ms": 100, "files": 8}
TOOK_MS = 1000


def run(
    commit: dict[str, Any] | None, rate: Any = 900, duration_s: float = 60, **keys: Any
) -> dict[str, pd.DataFrame]:
    """Run a source whose log is read, and a sink of two subtasks; return the tables as frames."""
    sink: dict[str, Any] = {"name": "sink", "parallelism": 2, "guarantee": "exactly-once"}
    service = keys.pop("service_rate", 1000)
    if service is not None:
        sink["service_rate"] = service
    if commit is not None:
        sink["commit"] = commit
    scenario: dict[str, Any] = {
        "schema": 1, "name": "commits", "duration_s": duration_s, "round_ms": 1,
        "stages": [{"name": "src", "arrival_rate": rate, "emit_rate": 10_000}, sink],
        "edges": [{"from": "src", "to": "sink", "partitioner": "rebalance"}],
        "options": {
            "execution.checkpointing.interval": keys.pop("interval", "5s"),
            "execution.buffer-timeout.interval": "5ms",
        },
        **keys,
    }  # fmt: skip
    return {
        name: one.to_pandas() for name, one in simulate(parse_scenario(scenario)).tables.items()
    }


def visible(tables: dict[str, pd.DataFrame], since_s: float = 10) -> pd.DataFrame:
    rows = tables["delivery"]
    return rows[(rows.t_s > since_s) & rows.visibility_max_ms.notna()]


@pytest.mark.parametrize("service_rate", [1000, None])
def test_a_commit_of_its_own_holds_the_thread(service_rate: float | None) -> None:
    """A second in five: 800/s of the 1,000/s are left to it, and it takes its 450/s."""
    tables = run(COMMIT, service_rate=service_rate)
    commits, stages = tables["commits"], tables["stages"]
    assert set(commits.duration_ms) == {TOOK_MS}
    assert set(commits.files) == {8}
    assert len(commits) == 2 * 11
    assert sorted(set(commits.subtask)) == [0, 1]
    done = tables["checkpoints"].set_index("checkpoint_id")
    waited = commits.started_s - commits.checkpoint_id.map(done.ended_s)
    assert waited.between(0, 0.01).all()
    own = stages[(stages.stage == "sink") & (stages.t_s > 10)]
    busy = 200 + (450 if service_rate else 0)
    assert own.busy_ms_per_s.mean() == pytest.approx(busy, rel=0.03)
    assert own.records_in.max() > 450 * 58


def test_what_is_visible_was_committed_first() -> None:
    """The oldest row of a checkpoint waits for the interval, and both for the commit."""
    plain, slow = visible(run(None)), visible(run(COMMIT))
    assert plain.visibility_max_ms.mean() == pytest.approx(5000, rel=0.02)
    # A row of the moment between barrier and commit waits for the next commit to be over, too.
    assert slow.visibility_max_ms.between(5000, 5010 + TOOK_MS).all()
    assert slow.visibility_p50_ms.mean() == pytest.approx(2500 + TOOK_MS, rel=0.02)
    shared = visible(run({**COMMIT, "fixed_ms": 0, "files": 5, "shared": True}))
    assert shared.visibility_max_ms.mean() == pytest.approx(5000 + TOOK_MS, rel=0.02)


def test_a_sink_loses_the_share_of_time_that_it_commits() -> None:
    """It takes 1,000/s, less a fifth, of a log that has more."""
    for commit, expected in ((COMMIT, 1600), ({**COMMIT, "shared": True}, 2000)):
        stages = run(commit, rate=5000)["stages"]
        own = stages[stages.stage == "sink"].groupby("t_s").records_in.sum()
        assert (own[60] - own[10]) / 50 == pytest.approx(expected, rel=0.01)


def test_a_shared_commit_that_is_longer_than_the_interval_piles_up() -> None:
    """6.2 s each 5 s: one behind the other, and each is 1.2 s later."""
    tables = run({"fixed_ms": 200, "per_file_ms": 300, "files": 10, "shared": True})
    commits, stages = tables["commits"], tables["stages"]
    assert commits.subtask.isna().all()
    assert set(commits.files) == {20}
    assert commits.started_s.diff().iloc[1:].tolist() == pytest.approx([6.2] * 10, abs=0.002)
    own = stages[(stages.stage == "sink") & (stages.t_s > 10)]
    assert own.busy_ms_per_s.mean() == pytest.approx(450, rel=0.02)
    late = visible(tables).visibility_max_ms
    assert late.iloc[-1] > late.iloc[0] + 5000


def test_a_checkpoint_without_records_has_no_files() -> None:
    pause = [{"at_s": 0, "rate": 900}, {"at_s": 12, "rate": 0}, {"at_s": 41, "rate": 900}]
    tables = run(COMMIT, rate=pause)
    assert set(tables["commits"].checkpoint_id) == {1, 2, 3, 9, 10, 11}
    assert len(tables["checkpoints"]) == 11


def test_a_failure_in_a_commit_loses_nothing() -> None:
    """The transaction is in the checkpoint: a restart commits it, without the time of it."""
    failures = [{"at_s": 10.5, "stage": "sink", "subtask": 0}]
    tables = run(
        COMMIT, rate=[{"at_s": 0, "rate": 600}, {"at_s": 30, "rate": 0}], failures=failures
    )
    assert tables["restarts"].checkpoint_id.tolist() == [2]
    last = tables["delivery"].groupby("subtask").last().sum()
    assert last.committed == 600 * 30
    assert last.visible_twice == last.lost == 0


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_that_ends_commits_its_last_transaction(shared: bool) -> None:
    """The last checkpoint is complete before the sink finishes.

    It commits before it does; a committer of all subtasks afterwards.
    """
    tables = run({**COMMIT, "shared": shared}, savepoints=[{"at_s": 23, "stop": True}])
    commits, last = tables["commits"], tables["delivery"].groupby("subtask").last().sum()
    assert commits.started_s.max() == pytest.approx(23, abs=0.1)
    assert last.committed == last.written > 0
