"""The tables are a contract: their columns, order and types are spelled out here once more."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from flowcontrol.records import (
    CHANNELS,
    CHECKPOINT_RESULTS,
    CHECKPOINT_TASKS,
    CHECKPOINTS,
    CONTROL_MESSAGES,
    DELIVERY,
    FAULT_TOLERANCE,
    FOLDERS,
    LATENCY,
    LEDGER,
    MESSAGES,
    METRICS,
    PROCESSES,
    RESTARTS,
    RESULTS,
    RESULTS_OF_WINDOWS,
    ROWS_OF_REQUESTS,
    SAMPLES,
    SCALINGS,
    STAGES,
    STATE,
    Column,
    Table,
)

CONTRACT = {
    "stages": (
        "t_s stage subtask records_in records_out rate_in rate_out busy_ms_per_s idle_ms_per_s "
        "backpressured_ms_per_s in_pool_usage out_pool_usage floating_buffers_usage "
        "exclusive_buffers_usage input_queue_buffers output_queue_buffers output_pool_size "
        "output_pool_used lag_records lag_s"
    ),
    "channels": (
        "t_s edge sender receiver written released announced sent consumed credit backlog "
        "exclusive_free floating_held queued in_flight_records in_flight_bytes"
    ),
    "output_of_requests": "stored_s acknowledged_s attempts",
    "latency": "t_s stage subtask kind count mean_ms p50_ms p90_ms p99_ms max_ms",
    "checkpoints": (
        "checkpoint_id kind status triggered_s ended_s e2e_ms is_unaligned state_bytes "
        "processed_bytes persisted_bytes acknowledged subtasks"
    ),
    "checkpoint_tasks": (
        "checkpoint_id stage subtask acknowledged_s e2e_ms start_delay_ms alignment_ms sync_ms "
        "async_ms processed_bytes persisted_bytes state_bytes"
    ),
    "restarts": (
        "number failed_s cause detected_s restarted_s running_s checkpoint_id tasks "
        "records_reprocessed caught_up_s"
    ),
    "delivery": (
        "t_s stage subtask written committed visible_twice lost visibility_p50_ms visibility_max_ms"
    ),
    "scalings": "t_s stage old new reason restart_s",
    "time": (
        "t_s stage subtask watermark_s watermark_lag_ms is_idle paused_ms_per_s late_records "
        "open_windows window_state_bytes fired"
    ),
    "processes": "t_s task_manager load cpu_share gc_ms_per_s",
    "messages": (
        "t_s edge sender receiver direction name sequence_number credit backlog bytes header_bytes"
    ),
    "control_messages": "t_s source target name bytes fencing_token",
    "samples": "t_s stage subtask ratio level",
    "metrics": "t_s scope name value",
    "output": "window_start window_end key emitted_s",
    "ledger": (
        "side batch_id sender receiver written released announced sent consumed exclusive "
        "floating_held credit backlog pool_used pool_size rows bytes committed_at channel_state "
        "task_state"
    ),
    "state": "checkpoint_id stage subtask batch_id state_bytes cut",
}
NULLABLE = {
    "checkpoints": "ended_s e2e_ms",
    "checkpoint_tasks": (
        "start_delay_ms alignment_ms sync_ms async_ms processed_bytes persisted_bytes state_bytes"
    ),
    "restarts": "detected_s restarted_s running_s checkpoint_id records_reprocessed caught_up_s",
    "delivery": "visibility_p50_ms visibility_max_ms",
    "processes": "load cpu_share",
    "messages": "sender receiver sequence_number credit backlog bytes header_bytes",
    "control_messages": "fencing_token",
    "output": "window_start window_end",
}
RUNS = (
    STAGES,
    CHANNELS,
    LATENCY,
    CHECKPOINTS,
    CHECKPOINT_TASKS,
    RESTARTS,
    DELIVERY,
    PROCESSES,
    SCALINGS,
    MESSAGES,
    CONTROL_MESSAGES,
    SAMPLES,
    METRICS,
)
TABLES = [*RUNS, RESULTS_OF_WINDOWS, ROWS_OF_REQUESTS, LEDGER, STATE]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_are_those_of_the_contract_in_its_order(table: Table) -> None:
    assert table.names == tuple(CONTRACT[table.name].split())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_says_what_it_means(table: Table) -> None:
    assert table.meaning.endswith(".")
    for column in table.columns:
        assert column.meaning.endswith("."), column.name
        assert len(column.meaning) > 15, column.name


def test_numbers_have_a_unit_unless_they_are_an_index() -> None:
    without = {
        column.name
        for table in TABLES
        for column in table.columns
        if column.type not in {"string", "bool"} and not column.unit
    }
    indices = {"subtask", "sender", "receiver", "batch_id", "checkpoint_id", "number"}
    indices |= {"sequence_number", "task_manager"}
    assert without == indices


def test_a_unit_in_the_name_is_the_unit() -> None:
    endings = {"_ms_per_s": "ms/s", "_usage": "ratio", "_s": "s", "_ms": "ms", "_bytes": "bytes"}
    checked = 0
    for column in (column for table in TABLES for column in table.columns):
        for ending, unit in endings.items():
            if column.name.endswith(ending):
                assert column.unit == unit, column.name
                checked += 1
                break
    assert checked >= 40


@pytest.mark.parametrize("table", RUNS, ids=lambda table: table.name)
def test_only_what_may_not_be_known_is_nullable(table: Table) -> None:
    nullable = [column.name for column in table.columns if column.nullable]
    assert nullable == NULLABLE.get(table.name, "").split()


@pytest.mark.parametrize("table", RUNS, ids=lambda table: table.name)
def test_a_truth_value_is_called_so(table: Table) -> None:
    for column in table.columns:
        assert column.name.startswith("is_") == (column.type == "bool"), column.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_arrow_schema_holds_the_columns_in_order(table: Table) -> None:
    schema = table.arrow_schema()
    assert tuple(schema.names) == table.names
    assert len(schema) == len(table.columns)


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        (STAGES, "t_s", pa.float64()),
        (STAGES, "stage", pa.string()),
        (STAGES, "records_in", pa.int64()),
        (CHANNELS, "credit", pa.int64()),
        (LATENCY, "count", pa.int64()),
        (LATENCY, "p99_ms", pa.float64()),
        (CHECKPOINTS, "is_unaligned", pa.bool_()),
        (RESTARTS, "checkpoint_id", pa.int64()),
        (LEDGER, "sender", pa.int64()),
        (LEDGER, "committed_at", pa.timestamp("us", tz="UTC")),
        (LEDGER, "channel_state", pa.string()),
    ],
    ids=str,
)
def test_arrow_types(table: Table, column: str, expected: pa.DataType) -> None:
    assert table.arrow_schema().field(column).type == expected


def test_unit_and_meaning_travel_with_the_arrow_field() -> None:
    metadata = STAGES.arrow_schema().field("rate_in").metadata
    assert metadata[b"unit"] == b"records/s"
    assert metadata[b"meaning"].decode() == STAGES.column("rate_in").meaning


def test_a_table_of_rows_takes_the_schema_with_and_without_nulls() -> None:
    row = dict.fromkeys(LEDGER.names) | {"side": "sender", "batch_id": 0}
    table = pa.Table.from_pylist([row], schema=LEDGER.arrow_schema())
    assert table.num_rows == 1
    assert table["consumed"].null_count == 1


def test_column_finds_by_name_and_lists_the_names_when_it_does_not() -> None:
    released = CHANNELS.column("released")
    assert released == Column("released", "int64", "buffers", released.meaning)
    with pytest.raises(KeyError, match=r"no column 'lag'; it has t_s, stage"):
        STAGES.column("lag")


def test_results_are_the_three_tables_and_cannot_be_changed() -> None:
    assert list(RESULTS) == ["stages", "channels", "latency"]
    assert [table.name for table in RESULTS.values()] == list(RESULTS)
    with pytest.raises(TypeError):
        RESULTS["ledger"] = LEDGER  # type: ignore[index]


def test_tables_of_a_job_that_checkpoints_stand_beside_the_others() -> None:
    assert list(CHECKPOINT_RESULTS) == ["checkpoints", "checkpoint_tasks"]
    assert list(FAULT_TOLERANCE) == ["checkpoints", "checkpoint_tasks", "restarts", "delivery"]
    assert set(CONTRACT) - {"ledger", "state", "output", "output_of_requests"} == FOLDERS
    with pytest.raises(TypeError):
        FAULT_TOLERANCE["ledger"] = LEDGER  # type: ignore[index]


def test_a_figure_that_was_not_reported_is_null() -> None:
    known = {"checkpoint_id": 1, "stage": "map", "subtask": 0, "acknowledged_s": 2.0, "e2e_ms": 9.0}
    row = dict.fromkeys(CHECKPOINT_TASKS.names) | known
    table = pa.Table.from_pylist([row], schema=CHECKPOINT_TASKS.arrow_schema())
    for column in CHECKPOINT_TASKS.columns:
        assert (table[column.name].null_count == 1) == column.nullable, column.name


def test_import_loads_no_arrow() -> None:
    code = "import sys, flowcontrol.records; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
