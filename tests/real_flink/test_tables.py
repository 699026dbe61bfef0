"""What REST said of a run becomes the tables of a result, on dumps of a Flink that ran."""

from __future__ import annotations

from typing import Any

import pytest
import tables

from flowcontrol.records import FAULT_TOLERANCE, RESULTS
from flowcontrol.scenario.given import as_scenario
from tests.real_flink import recorded


def tables_of(name: str) -> dict[str, Any]:
    return tables.result_tables(
        recorded.polls(name), [], recorded.start_ms(name), recorded.scenario(name)
    )


def test_the_tables_have_the_columns_of_a_run() -> None:
    found = tables_of("with-checkpoints")
    assert set(found) == {"stages", "channels", "latency", "checkpoints", "checkpoint_tasks"}
    for name, table in found.items():
        assert tuple(table.column_names) == {**RESULTS, **FAULT_TOLERANCE}[name].names


def test_a_run_without_checkpoints_has_no_table_of_them() -> None:
    assert set(tables_of("fan-in")) == {"stages", "channels", "latency"}


def test_every_poll_is_a_sample_of_every_subtask() -> None:
    stages = tables_of("skewed-hash")["stages"].to_pandas()
    count = len(recorded.polls("skewed-hash"))
    assert stages.groupby(["stage", "subtask"]).size().to_dict() == {
        **{("source", n): count for n in range(2)},
        **{("workers", n): count for n in range(3)},
    }
    assert stages["t_s"].diff().max() == pytest.approx(1, abs=0.2)


def test_counters_shares_and_usages_are_those_of_rest() -> None:
    poll = recorded.polls("slow-sink")[-1]
    [vertex] = [
        one["id"] for one in poll[tables.job_path(poll)]["vertices"] if one["name"] == "sink"
    ]
    path = f"{tables.job_path(poll)}/vertices/{vertex}/subtasks/0/metrics"
    said = {row["id"]: float(row["value"]) for row in poll[path]}
    stages = tables_of("slow-sink")["stages"].to_pandas()
    last, before = (
        stages[stages["stage"] == "sink"].iloc[-1],
        stages[stages["stage"] == "sink"].iloc[-2],
    )
    assert last["records_in"] == said["numRecordsIn"]
    assert last["in_pool_usage"] == said["Shuffle.Netty.Input.Buffers.inPoolUsage"]
    assert last["input_queue_buffers"] == said["Shuffle.Netty.Input.Buffers.inputQueueLength"]
    grown = last["records_in"] - before["records_in"]
    assert last["rate_in"] == pytest.approx(grown / (last["t_s"] - before["t_s"]))
    assert last["rate_out"] == 0
    assert last["busy_ms_per_s"] == pytest.approx(1000, abs=30)


def test_shares_of_a_task_are_all_of_its_time() -> None:
    stages = tables_of("slow-map")["stages"].to_pandas().query("t_s > 13")
    whole = stages[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]].sum(axis=1)
    assert whole.mean() == pytest.approx(1000, abs=5)


def test_a_record_that_leaves_on_two_edges_is_counted_once() -> None:
    stages = tables_of("fan-out")["stages"].to_pandas()
    ends = stages.groupby("stage")[["records_in", "records_out"]].last()
    held = ends.loc["source", "records_out"] - ends.loc["alert", "records_in"]
    assert 0 <= held < 60


def test_channels_that_are_alone_have_what_is_in_flight() -> None:
    channels = tables_of("slow-sink")["channels"].to_pandas()
    assert set(channels["edge"]) == {"source->map", "map->sink"}
    assert channels["credit"].isna().all()
    steady = channels.groupby("edge")["in_flight_records"].mean()
    assert steady["source->map"] == pytest.approx(960, rel=0.03)
    full = channels["in_flight_records"] * 317
    assert (channels["in_flight_bytes"] == full).all()


@pytest.mark.parametrize("name", ["fan-in", "skewed-hash"])
def test_channels_that_share_a_task_are_not_made_up(name: str) -> None:
    assert tables_of(name)["channels"].num_rows == 0


def test_checkpoints_are_in_the_order_of_their_triggers_with_their_tasks() -> None:
    found = tables_of("with-checkpoints")
    whole = found["checkpoints"].to_pandas()
    assert whole["checkpoint_id"].is_monotonic_increasing
    assert whole["triggered_s"].diff().median() == pytest.approx(4.1, abs=0.1)
    done = whole[whole["status"] == "completed"]
    assert len(done) >= 10
    assert (done["acknowledged"] == 6).all()
    assert not done["is_unaligned"].any()
    tasks = found["checkpoint_tasks"].to_pandas()
    of_each = tasks.groupby("checkpoint_id").size().loc[done["checkpoint_id"]]
    assert (of_each == 6).all()
    latest = tasks.groupby("checkpoint_id")["e2e_ms"].max()
    assert latest.loc[done["checkpoint_id"]].to_numpy() == pytest.approx(
        done["e2e_ms"].to_numpy(), abs=1
    )
    assert set(tasks["stage"]) == {"source", "map", "sink"}


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"status": "COMPLETED", "end_to_end_duration": 9}, "completed"),
        ({"status": "FAILED", "end_to_end_duration": 3001}, "expired"),
        ({"status": "FAILED", "end_to_end_duration": 2999}, "aborted"),
        ({"status": "IN_PROGRESS", "end_to_end_duration": 4000}, "aborted"),
    ],
)
def test_a_checkpoint_that_failed_at_its_timeout_expired(row: dict[str, Any], status: str) -> None:
    assert tables.status(row, 3000) == status


def test_task_managers_get_the_numbers_of_the_scenario() -> None:
    for name in recorded.NAMES:
        given = recorded.scenario(name)
        found = tables.placement_of(recorded.polls(name)[0], given)
        assert found == {stage.name: list(stage.placement or ()) for stage in given.stages}


def poll_of(managers: dict[str, list[str]]) -> dict[str, Any]:
    """A poll that says where subtasks are, and nothing else."""
    vertices = [{"id": name, "name": name} for name in managers]
    poll: dict[str, Any] = {"/jobs/j": {"vertices": vertices}}
    for name, own in managers.items():
        rows = [{"taskmanager-id": one} for one in own]
        poll[f"/jobs/j/vertices/{name}"] = {"subtasks": rows}
    return poll


def test_a_subtask_that_flink_put_elsewhere_is_there_and_not_where_it_was_wanted() -> None:
    given = as_scenario("conf/gc-pause.yaml")
    poll = poll_of({"source": ["x"], "sink": ["x", "y"]})
    assert tables.placement_of(poll, given) == {"source": [0], "sink": [0, 1]}


def test_the_stage_at_the_head_of_a_chain_names_its_vertex() -> None:
    assert tables.head_of_vertex("Source: a -> (b, c -> d)") == "a"
    assert tables.head_of_vertex("map") == "map"


def test_a_stage_that_never_ran_stays_where_it_was_wanted() -> None:
    given = as_scenario("conf/gc-pause.yaml")
    poll = poll_of({"source": ["x"], "sink": [tables.UNASSIGNED, "x"]})
    assert tables.placement_of(poll, given)["sink"] == list(given.stage("sink").placement or ())


def test_a_job_that_has_ended_keeps_its_counters() -> None:
    given = recorded.scenario("slow-sink")
    polls = recorded.polls("slow-sink")
    last = {path: None if path.endswith("/metrics") else body for path, body in polls[-1].items()}
    found = tables.result_tables([*polls[:-1], last], [], recorded.start_ms("slow-sink"), given)
    stages = found["stages"].to_pandas().query("stage == 'sink'")
    assert stages["records_in"].iloc[-1] == stages["records_in"].iloc[-2] > 0
    assert stages["rate_in"].iloc[-1] == 0
