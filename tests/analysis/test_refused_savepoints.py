"""Savepoints that were refused during a restart are named, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import emulate
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Savepoint
from flowcontrol.scenario.given import as_scenario
from flowcontrol.topics.restarts import MOST_SENTENCES, refused_sentences
from flowcontrol.virtual import run_job

PATH = Path(__file__).resolve().parents[2] / "conf" / "recovery.yaml"
ROUND_US = 100_000

LEADER = [{"at_s": 12, "job_manager": True}]
OWN = [{"at_s": 12, "stage": "map", "subtask": 0}]
DEATHS = {"heartbeat.interval": "500ms", "heartbeat.timeout": "1s"}
UNALIGNED = {"execution.checkpointing.unaligned": True}
STATE = {"cluster.upload_bytes_per_s": 1e6, "stages.map.state": {"bytes": 10_000_000}}
"""The upload of a checkpoint takes some 10 s."""


def run_with(
    savepoints: Sequence[Mapping[str, Any]], failures: Sequence[Mapping[str, Any]], **more: Any
) -> tuple[list[str], list[float], list[dict[str, Any]]]:
    """Return the sentences of a run, when its savepoints began, and its restarts."""
    options = {"execution.checkpointing.interval": "5s", **DEATHS, **more.pop("options", {})}
    scenario = as_scenario(
        PATH,
        {
            "duration_s": 20,
            "savepoints": list(savepoints),
            "failures": list(failures),
            **{f"options.{key}": value for key, value in options.items()},
            **more,
        },
    )
    job = build_physical_graph(scenario, round_us=ROUND_US)
    tables = run_job(job).tables
    began = [
        row["triggered_s"]
        for row in tables["checkpoints"].to_pylist()
        if row["kind"] == "savepoint"
    ]
    found = refused_sentences(
        tables["restarts"], tables["checkpoints"], scenario.savepoints, scenario.failures, ROUND_US
    )
    return found, began, tables["restarts"].to_pylist()


def test_the_sentence_says_when_why_and_what_to_do() -> None:
    found, began, _ = run_with([{"at_s": 13}, {"at_s": 13.5, "stop": True}], OWN)
    text = (
        "since the job was restarting from 12.1 to 14.1 s: as with Flink, ask again once it runs."
    )
    assert found == [
        f"The savepoint at 13 s was refused, {text}",
        f"The savepoint at 13.5 s was refused and the job did not stop with it, {text}",
    ]
    assert began == []


@pytest.mark.parametrize(("failures", "starts"), [(OWN, "detected_s"), (LEADER, "failed_s")])
def test_what_is_refused_is_what_the_coordinator_refuses(failures: Any, starts: str) -> None:
    """At both ends of the restart: a round before, the round, and a round behind it."""
    _, _, (row,) = run_with([], failures)
    assert row["running_s"] < 19
    ends = [row[starts], row["running_s"]]
    times = [round(end + number / 10, 1) for end in ends for number in (-1, 0, 1)]
    found, began, _ = run_with([{"at_s": at_s} for at_s in times], failures)
    before, first, *refused, after = times
    assert began == pytest.approx([before, first, after])
    assert [sentence.split()[3] for sentence in found] == [f"{at_s:g}" for at_s in refused]


def test_what_still_waits_for_a_checkpoint_is_refused_at_the_failure() -> None:
    """The first one waits for the checkpoint of 5 s and begins; the second one for that of 10 s."""
    more = {"options": UNALIGNED, **STATE}
    found, began, _ = run_with([{"at_s": 6}, {"at_s": 11}], [{**OWN[0], "at_s": 19}], **more)
    assert [9 < at_s < 19 for at_s in began] == [True]
    (sentence,) = found
    assert sentence == (
        "The savepoint at 11 s was refused, since it still waited for another checkpoint when the "
        "job began to restart at 19.1 s: as with Flink, ask again once it runs."
    )


def test_a_job_that_failed_for_good_takes_no_savepoint() -> None:
    found, began, _ = run_with([{"at_s": 15}], OWN, options={"restart-strategy.type": "none"})
    assert found == ["The savepoint at 15 s was refused, since the job was down from 12.1 s on."]
    assert began == []


def test_a_failure_before_the_job_runs_again_makes_the_restart_longer() -> None:
    failures = [*OWN, {"at_s": 13, "job_manager": True}]
    found, _, restarts = run_with([{"at_s": 12.5}, {"at_s": 13.2}], failures)
    assert [row["running_s"] is None for row in restarts] == [True, False]
    ends = f"from 12.1 to {restarts[1]['running_s']:g} s"
    assert [ends in sentence for sentence in found] == [True, True]


def test_of_many_only_the_first_have_a_sentence() -> None:
    times = [{"at_s": round(12.4 + number / 10, 1)} for number in range(MOST_SENTENCES + 2)]
    found, _, _ = run_with(times, OWN)
    assert len(found) == MOST_SENTENCES + 1
    assert found[-1] == "2 more savepoints were refused likewise."
    assert run_with(times[:-1], OWN)[0][-1] == "1 more savepoint was refused likewise."


def test_a_run_says_it_in_its_summary_and_on_its_page(tmp_path: Path) -> None:
    changes = {"round_ms": 100, "savepoints": [{"at_s": 35, "stop": True}]}
    run = emulate(PATH, overrides=changes, clock="virtual", out=tmp_path / "run")
    text = "The savepoint at 35 s was refused and the job did not stop with it"
    assert [text in sentence for sentence in run.summary["restarts"]["sentences"]] == [False, True]
    assert text in (tmp_path / "run" / "report.html").read_text()


def test_savepoints_of_a_job_that_runs_are_not_refused() -> None:
    assert Savepoint(at_s=3).stop is False
    found, began, _ = run_with([{"at_s": 3}, {"at_s": 16}], OWN)
    assert (found, began) == ([], [3, 16])
