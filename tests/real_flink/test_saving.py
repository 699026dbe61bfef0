"""State, savepoints and sinks that commit: what the program is told, and what comes back."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import refusals
import saving
import translate

import report
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_scenario


def shape(name: str, **changes: Any) -> Scenario:
    """A shape of shapes/faults/."""
    return as_scenario(report.FAULTED_SHAPES / f"{name}.yaml", changes)


def stages_of(scenario: Scenario) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in translate.flink_job(scenario)["stages"]}


def test_the_program_is_told_of_savepoints_and_state() -> None:
    job = translate.flink_job(shape("stop"))
    assert job["savepoints"] == [{"at_s": 12, "stop": False}, {"at_s": 18, "stop": True}]
    assert job["is_watched"]
    stages = stages_of(shape("savepoint"))
    assert stages["map"]["state"] == {
        "bytes": 300_000, "bytes_per_record": 20, "bytes_per_key": 0, "sync_ms": 20,
    }  # fmt: skip
    assert stages["source"]["state"] is stages["sink"]["state"] is None


def test_with_failures_each_stage_behind_a_source_keeps_its_counts() -> None:
    stages = stages_of(shape("sink-exception"))
    assert stages["sink"]["state"]["bytes"] == 0
    assert stages["source"]["state"] is None


def test_rows_of_sinks_that_commit_have_ids_of_their_own() -> None:
    stages = stages_of(shape("commit-failure"))
    assert stages["sink"]["commits"]
    assert stages["sink"]["commit_ms"] == 100
    assert stages["source"]["have_ids"]
    assert stages["source"]["first_ids"] == [0, saving.MOST_RECORDS]
    assert not stages_of(shape("sink-exception"))["source"]["have_ids"]


def test_a_key_stands_behind_the_id_of_a_row() -> None:
    given = {"stages.sink.guarantee": "exactly-once"}
    [edge, _] = translate.flink_job(shape("keyed-state"))["edges"]
    assert edge["key_place"] == 0
    [edge, _] = translate.flink_job(shape("keyed-state", **given))["edges"]
    assert edge["key_place"] == 1


KEYED = {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 9}}


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"stages.source.state": {"bytes": 9}}, "stages[0].state", "no more than their place"),
        (
            {"stages.map.state": {"bytes": 9, "incremental_share": 0.5}},
            "stages[1].state.incremental_share",
            "0.5: state on the heap is written whole; leave it out",
        ),
        (
            {
                "stages.sink.state": {"bytes_per_key": 9},
                "edges": [
                    {"from": "source", "to": "map", "partitioner": "rebalance"},
                    {"from": "map", "to": "sink", **KEYED},
                    {"from": "source", "to": "sink", **KEYED},
                ],
            },
            "stages[2].state.bytes_per_key",
            "behind one edge by hash",
        ),
        (
            {"stages.sink.commit": {"fixed_ms": 9, "shared": True}},
            "stages[2].commit.shared",
            "commits its own files",
        ),
        ({"stages.sink.transaction_timeout_s": 9}, "stages[2].transaction_timeout_s", "for ever"),
        ({"stages.map.selectivity": 2}, "stages[1].selectivity", "2: rows of one record have one"),
        ({"edges.0.partitioner": "broadcast"}, "edges[0].partitioner", "has the same id"),
    ],
)
def test_what_is_neither_kept_nor_committed_is_refused(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        refusals.check(shape("exactly-once", **changes))
    [problem] = [one for one in refused.value.problems if one.place == place]
    assert words in problem.message


def test_event_time_and_exactly_once_sinks_are_refused_together() -> None:
    given = {"stages.sink.guarantee": "exactly-once",
             'options."execution.checkpointing.interval"': "5s"}  # fmt: skip
    with pytest.raises(ScenarioError, match="event time or exactly-once sinks"):
        refusals.check(as_scenario(report.TIMED_SHAPES / "tumbling.yaml", given))


COMMITS = [[5.1, "sink/0", 700, 0], [5.2, "sink/1", 800, 0], [10.1, "sink/0", 50, 3]]


def test_rows_are_visible_from_their_commit_on() -> None:
    moments = [float(at) for at in range(1, 41)]
    table = saving.delivery_table(shape("commit-failure"), {"commits": COMMITS}, moments)
    found = table.to_pandas().groupby("t_s")[["committed", "visible_twice"]].sum()
    assert found.loc[[5, 6, 11]].to_numpy().tolist() == [[0, 0], [1500, 0], [1550, 3]]
    figures = dict(saving.figures(shape("commit-failure"), {"delivery": table}))
    assert figures["sink", "visible at 9.2 s", "rows"] == 1500
    assert figures["sink", "visible twice", "rows"] == 3


def test_figures_of_savepoints_are_apart_from_those_of_checkpoints() -> None:
    rows = [
        {"kind": kind, "status": status, "triggered_s": at, "ended_s": at + 0.1, "e2e_ms": e2e,
         "state_bytes": size}
        for kind, status, at, e2e, size in (
            ("checkpoint", "completed", -0.01, 900, 1), ("checkpoint", "completed", 5, 20, 100),
            ("checkpoint", "aborted", 10, 999, 1), ("checkpoint", "completed", 15, 40, 300),
            ("savepoint", "completed", 18, 60, 500),
        )
    ]  # fmt: skip
    table = pa.Table.from_pandas(pd.DataFrame(rows))
    delivery = saving.delivery_table(shape("stop"), {"commits": []}, [7.0, 30.0])
    found = {
        (place, figure): value
        for (place, figure, _), value in saving.figures(
            shape("stop"), {"checkpoints": table, "delivery": delivery}
        )
    }
    assert found["checkpoints", "end to end"] == 30
    assert (found["checkpoints", "state"], found["checkpoints", "last state"]) == (200, 300)
    assert found["savepoints", "end to end"] == 60
    assert found["job", "stopped at"] == pytest.approx(18.1)
