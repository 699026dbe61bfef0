"""Live runs against virtual ones: every row of every ledger, every table, every row that moved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from flowcontrol.run import RunResult
from modules import load

cases = load("tests/live/cases.py")
runs = load("tests/live/runs.py")

pytestmark = pytest.mark.spark

EVERYTHING = {"floating", "waiting", "no credit", "blocked"}
EVERY = [
    "single",
    "hash",
    "short",
    "fan_in",
    "compete",
    "local",
    "stages",
    "shuffle",
    "large",
    "fan_out",
]
IS_LONG = "FLOWCONTROL_LONG" in os.environ
DROPPED = {"single", "hash", "short", "fan_in", "local", "shuffle", "large", "fan_out"}
NAMES = EVERY if IS_LONG else [name for name in EVERY if name not in DROPPED]
"""The quick form leaves out what another case has as well, or what test_stand_in.py runs."""
FROM_SOURCES = [name for name in NAMES if name != "stages"]

Numbers = list[tuple[str, int, int]]
Run = Any
"""What ``run_of`` returns: a live run with the rows of its job on the virtual clock."""


def test_every_case_is_run() -> None:
    assert [case["name"].replace("-", "_") for case in cases.EVERY] == EVERY


@pytest.mark.holds("credit", "live", "the virtual clock: every ledger row and table")
@pytest.mark.parametrize("name", NAMES)
def test_a_live_run_is_that_of_the_virtual_clock(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    assert 14 <= run.job.rounds == run.result.summary["rounds"] <= 18
    # Each run is one that counts; a local channel knows neither credit nor floating buffers.
    assert runs.saw(run.ledgers) == ({"blocked"} if name == "local" else EVERYTHING)


def test_channels_competed_for_floating_buffers(run_of: Callable[[str], Run]) -> None:
    rows = [row for row in run_of("compete").ledgers["source->sink"] if row["side"] == "receiver"]
    gates: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        gates.setdefault((row["batch_id"], row["receiver"]), []).append(row)
    held = [[row["floating_held"] for row in gate] for gate in gates.values()]
    assert max(sum(one) for one in held) == 3
    assert any(sum(count > 0 for count in one) >= 2 for one in held)
    waiting = [row["task_state"]["gates"][0]["waiting"] for row in rows if row["task_state"]]
    assert max(len(channels) for channels in waiting) >= 2


@pytest.mark.long
def test_large_records_came_in_buffers_without_an_end(run_of: Callable[[str], Run]) -> None:
    last = [row for row in run_of("large").ledgers["source->sink"] if row["batch_id"] == 17]
    [consumed] = [row["consumed"] for row in last if row["side"] == "receiver"]
    rows = DeltaTable(str(run_of("large").result.path / "output" / "sink")).to_pyarrow_table()
    assert consumed > 2 * len(rows) > 20


# ---------------------------------------------------------------------- rows


def expected_rows(runs: ModuleType, run: Run, sink: str) -> Numbers:
    """Rows that a sink must have written: those whose last hop the ledger says they have made."""
    if run.job.scenario.name == "stages":
        # Two thirds of a source's row make one of map's: its output j is made of row 2j/3.
        [count] = runs.taken(run.ledgers, "map->sink").values()
        return [("source", 0, -(-(j + 1) * 2 // 3) - 1) for j in range(count)]
    return [
        (edge.split("->")[0], sender, number)
        for (edge, sender, _), numbers in runs.delivered(run.job, run.ledgers).items()
        for number in numbers
        if edge.endswith(f"->{sink}")
    ]


@pytest.mark.holds("credit", "live", "the sources' rows: each arrives once")
def test_the_sinks_rows_are_the_sources_rows(run_of: Callable[[str], Run], spark: Any) -> None:
    """Of all cases together: a comparison costs more than a run of one."""
    tables, rows = [], list[tuple[Any, ...]]()
    for name in NAMES:
        run = run_of(name)
        for sink in (plan.name for plan in run.job.stages if not plan.outputs):
            due = expected_rows(runs, run, sink)
            assert len(due) > 10
            rows += [(name, sink, *row) for row in due]
            table = spark.read.format("delta").load(str(run.result.path / "output" / sink))
            tables.append(table.selectExpr(f"'{name}' AS case", f"'{sink}' AS sink", "*"))
    assert_df_equality(
        reduce(DataFrame.unionAll, tables),
        spark.createDataFrame(
            rows, "case string, sink string, source string, source_subtask long, number long"
        ),
        ignore_row_order=True,
        ignore_nullable=True,
    )


def test_a_record_that_yields_one_and_a_half_comes_once_or_twice(
    run_of: Callable[[str], Run],
) -> None:
    rows = runs.rows_in_order(run_of("stages").result.path / "output" / "sink")
    assert rows == expected_rows(runs, run_of("stages"), "sink")
    assert set(Counter(rows[:-1]).values()) == {1, 2}


@pytest.mark.parametrize("name", FROM_SOURCES)
def test_a_channel_keeps_its_order(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    for (edge, sender, _), numbers in runs.delivered(run.job, run.ledgers).items():
        source, sink = edge.split("->")
        came = runs.rows_in_order(run.result.path / "output" / sink)
        own = set(numbers)
        assert [n for s, i, n in came if (s, i) == (source, sender) and n in own] == numbers


@pytest.mark.parametrize("name", FROM_SOURCES)
def test_latency_is_what_the_cursors_say(name: str, run_of: Callable[[str], Run]) -> None:
    """Both sides' cursors say when each record was emitted, and when it was taken up."""
    run = run_of(name)
    live, ages = runs.live_rows(run.job, run.result.path), dict[Any, Counter[int]]()
    ends = {last: t_s for t_s, _, last in run.job.samples(run.job.rounds)}
    for link in run.job.links:
        for (number, receiver), own in runs.latencies(run.job, live, link.name).items():
            t_s = ends[min(last for last in ends if last >= number)]
            ages.setdefault((t_s, link.edge.receiver, receiver), Counter()).update(own)
    found = run.result.tables["latency"].to_pylist()
    assert {(one["t_s"], one["stage"], one["subtask"]): one["count"] for one in found} == {
        key: own.total() for key, own in ages.items() if own
    }
    for one in found:
        own = ages[one["t_s"], one["stage"], one["subtask"]]
        mean = sum(rounds * count for rounds, count in own.items()) / own.total()
        assert (one["mean_ms"], one["max_ms"]) == pytest.approx((100 * mean, 100 * max(own)))


def test_nothing_else_moved(run_of: Callable[[str], Run]) -> None:
    """The exchange log of a link holds what its sender routed, none of it twice."""
    run = run_of("stages")
    for link in run.job.links:
        rows = [row for row in run.ledgers[link.name] if row["side"] == "sender"]
        log = DeltaTable(str(run.result.path / "links" / link.folder / "exchange"))
        table = log.to_pyarrow_table()
        assert len(table) == sum(row["rows"] for row in rows)
        assert set(table.column("batch_id").to_pylist()) == {
            row["batch_id"] for row in rows if row["rows"]
        }


# ---------------------------------------------------------------------- seeds


@pytest.mark.long  # both are what the virtual clock says, as the tests above have it
def test_the_same_seed_gives_the_same_run(
    run_of: Callable[[str], Run], run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    first = run_of("shuffle")
    again = run_live(first.job.scenario, tmp_path / "again")
    runs.assert_same_rows(first.job, first.result.path, again.path)
    assert runs.rows_in_order(again.path / "output" / "sink") == runs.rows_in_order(
        first.result.path / "output" / "sink"
    )
    assert again.tables == first.result.tables


def test_another_seed_gives_another_run() -> None:
    one, two = (runs.virtual_rows(runs.job_of({**cases.SHUFFLE, "seed": seed})) for seed in (7, 8))
    assert runs.first_difference(one, two) is not None
