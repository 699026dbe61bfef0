"""The scenarios of conf/tour, on the virtual clock: each shows the figures of its first lines."""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flowcontrol
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.plan import window_warnings
from flowcontrol.results.run import Run
from flowcontrol.scenario import check_clock, load_scenario, parse_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf" / "tour"
FILES = sorted(CONF.glob("*.yaml"))
LENGTH = 11
MOST_COLUMNS = 100

on_each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@cache
def run(name: str, *overrides: str) -> Run:
    """Return the run of the scenario whose name begins so."""
    (path,) = CONF.glob(f"{name}-*.yaml")
    return simulate(load_scenario(path, overrides=list(overrides)))


def table(name: str, which: str, *overrides: str) -> pd.DataFrame:
    """Return a table of a run, by time."""
    return run(name, *overrides).tables[which].to_pandas().set_index("t_s")


def at(t_s: float, name: str, stage: str, subtask: int = 0) -> pd.Series[Any]:
    """Return a sample of a subtask."""
    found = table(name, "stages").loc[t_s]
    return found[(found.stage == stage) & (found.subtask == subtask)].iloc[0]


def channel(t_s: float, name: str, sender: int = 0, edge: str | None = None) -> pd.Series[Any]:
    """Return a sample of a channel."""
    found = table(name, "channels").loc[[t_s]]
    return found[(found.sender == sender) & (found.edge == (edge or found.edge))].iloc[0]


def said(name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the messages of a run: time, name and some columns, None where there is none."""
    rows = run(name).tables["messages"].to_pylist()
    return [tuple(row[key] for key in ("t_s", "name", *columns)) for row in rows]


# ---------------------------------------------------------------------- every one


def test_they_are_in_order() -> None:
    assert [path.stem[:3] for path in FILES] == [f"{n:02}-" for n in range(1, LENGTH + 1)]


@on_each
def test_its_first_lines_explain_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []
    header = lines[: lines.index("schema: 1")]
    assert all(re.match(r"#( |$)", line) for line in header)
    assert header[0].endswith(".")
    text = " ".join(line.removeprefix("#").strip() for line in header)
    assert f"Tour {int(path.stem[:2])} of {LENGTH}." in text
    assert "What to see" in text
    assert "The window." in text


@on_each
def test_it_is_small_and_runs_on_the_virtual_clock(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.duration_s <= 12
    assert scenario.round_ms in {10, 100}
    assert check_clock(scenario, "virtual") == []
    assert parse_scenario(scenario.canonical()) == scenario


@on_each
def test_its_window_carries_its_rates(path: Path) -> None:
    """But for the exchange that is about a window as large as what is sent."""
    warnings = window_warnings(build_physical_graph(load_scenario(path)))
    assert bool(warnings) == path.stem.startswith("06-")


# ---------------------------------------------------------------------- one by one


def test_a_chain_needs_no_buffers() -> None:
    assert table("01", "channels").empty
    assert set(table("01", "latency").max_ms) == {0}
    for stage, taken in (("source", "records_out"), ("map", "records_in")):
        last = at(4, "01", stage)
        assert last[taken] == 4 * 400
        assert (last.busy_ms_per_s, last.backpressured_ms_per_s) == (1000, 0)
        assert last.output_pool_size == last.output_pool_used == last.input_queue_buffers == 0
    assert at(4, "01", "source").lag_records == 4 * 600


def test_threads_share_the_buffers_of_the_sender() -> None:
    source, own = at(4, "02", "source"), channel(4, "02")
    assert (source.output_pool_used, source.output_pool_size) == (10, 10)
    assert source.backpressured_ms_per_s == pytest.approx(800, rel=0.02)
    assert at(4, "02", "map").rate_in == 400
    assert at(4, "02", "map").busy_ms_per_s == 1000
    assert own.in_flight_records == pytest.approx(170, rel=0.05)
    assert table("02", "latency").p50_ms[4] == pytest.approx(1000 * 170 / 400, rel=0.02)
    assert set(table("02", "channels").credit) == {0}
    traced = parse_scenario(load_scenario(CONF / "02-threads.yaml").canonical() | {"trace": {}})
    assert simulate(traced).tables["messages"].num_rows == 0


def test_task_managers_have_buffers_at_both_ends() -> None:
    source, own = at(4, "03", "source"), channel(4, "03")
    assert (source.output_pool_used, source.output_pool_size) == (10, 10)
    assert (own.floating_held, own.exclusive_free, own.sent - own.consumed) == (8, 0, 10)
    assert own.in_flight_records == pytest.approx(375, rel=0.02)
    assert table("03", "latency").p50_ms[4] == pytest.approx(930, rel=0.01)
    messages = said("03", "credit", "header_bytes")
    assert messages[0] == (0, "PartitionRequest", 2, 97)
    assert {one[1:] for one in messages[1:]} == {("BufferResponse", 1, 43), ("AddCredit", 1, 29)}


def test_before_credits_the_slow_receiver_stops_both() -> None:
    quick, slow = at(6, "04", "B", 0), at(6, "04", "B", 1)
    for one, rate in ((quick, 210), (slow, 200)):  # what shares a connection comes in lumps
        early = at(1, "04", "B", one.subtask).records_in
        assert (one.records_in - early) / 5 == pytest.approx(rate, rel=0.01)
    assert quick.idle_ms_per_s == pytest.approx(900, rel=0.01)
    assert [channel(6, "04", n).floating_held for n in (0, 1)] == [1, 10]
    waits = table("04", "latency").query("subtask == 0").p50_ms
    assert waits.loc[3:].between(1500, 1750).all()
    for sender in (0, 1):
        assert at(6, "04", "A", sender).backpressured_ms_per_s > 700


def test_with_credits_it_stops_its_own_sender() -> None:
    assert at(6, "05", "B", 0).rate_in == 1000
    assert at(6, "05", "B", 1).rate_in == 200
    stages = table("05", "stages").query("stage == 'A'")
    assert stages.query("subtask == 0").backpressured_ms_per_s.max() == 0
    assert at(6, "05", "A", 1).backpressured_ms_per_s == pytest.approx(800, rel=0.01)
    assert table("05", "latency").query("subtask == 0").mean_ms[6] == pytest.approx(15, abs=1)
    slow = channel(6, "05", 1)
    assert (slow.credit, slow.backlog) == (0, 10)


def test_backlog_three_credit_three() -> None:
    assert said("06", "sequence_number", "credit", "backlog") == [
        (0.0, "PartitionRequest", None, 2, None),
        (0.2, "BufferResponse", 0, 1, 4),
        (0.2, "BufferResponse", 1, 1, 3),
        (0.3, "AddCredit", None, 3, None),
        (0.4, "BufferResponse", 2, 1, 2),
        (0.4, "BufferResponse", 3, 1, 1),
        (0.4, "BufferResponse", 4, 1, 0),
        (0.5, "AddCredit", None, 1, None),
        (0.6, "AddCredit", None, 1, None),
    ]
    samples = table("06", "channels")
    assert [samples.credit[t_s] for t_s in (0.1, 0.2, 0.4, 1.2)] == [2, 0, 0, 2]
    assert [samples.backlog[t_s] for t_s in (0.2, 0.4)] == [3, 0]
    held = [samples.floating_held[t_s] for t_s in (0.2, 0.3, 0.6, 0.7, 0.8, 0.9)]
    assert held == [0, 3, 3, 2, 1, 0]


def test_floating_buffers_go_where_the_backlog_is() -> None:
    assert table("07", "channels").loc[:1.0].floating_held.max() == 0
    gate = at(1.5, "07", "receiver")
    assert gate.in_pool_usage == pytest.approx(10 / 14)
    assert gate.floating_buffers_usage == 1
    assert gate.exclusive_buffers_usage == pytest.approx(2 / 6)
    held = [channel(1.5, "07", sender).floating_held for sender in range(3)]
    assert held == [0, 0, 8]
    for sender in (0, 1):
        own = table("07", "channels").query(f"sender == {sender}")
        assert (own.exclusive_free > 0).all()
        assert at(4, "07", "sender", sender).records_out == 4 * 20
    assert table("07", "channels").loc[2.5:].floating_held.max() == 0


def test_pools_shrink_and_grow() -> None:
    times = (2.0, 2.5, 4.0, 4.5)
    sizes = [at(t_s, "08", "orders").output_pool_size for t_s in times]
    assert sizes == [10, 2 + 6, 8, 10]
    assert at(2.5, "08", "events").output_pool_size == 8
    held = [channel(t_s, "08", edge="orders->bill").floating_held for t_s in times]
    assert held == [8, 1 + 15 // 3, 6, 8]
    ages = table("08", "latency").query("stage == 'bill' and subtask == 0").p50_ms
    assert [ages[t_s] for t_s in (2.0, 4.0, 6.0)] == pytest.approx([920, 720, 920], rel=0.02)


def test_water_marks_stop_and_release_the_writer() -> None:
    marks = {}
    for state in flowcontrol.rounds(CONF / "09-water-marks.yaml"):
        (connection,) = state.connections
        assert connection.tcp is not None
        marks[round(state.end_us / 1e6, 2)] = connection.tcp
    message = 4096 + 34
    closed = [t_s for t_s, tcp in marks.items() if tcp.auto_read == 0]
    assert closed[0] == 0.04
    assert {tcp.pending for tcp in marks.values() if tcp.is_writable} <= {0, message}
    # One message of two is left, which is above the low mark: not writable yet.
    assert (marks[0.05].pending, marks[0.05].is_writable) == (2 * message, 0)
    assert (marks[0.06].pending, marks[0.06].is_writable) == (message, 0)
    assert (marks[0.04].high_mark, marks[0.04].low_mark) == (8192, 4097)
    assert at(2, "09", "source").output_pool_used == at(2, "09", "source").output_pool_size == 4
    steady = [marks[round(1.0 + 0.15 * n, 2)] for n in range(7)]
    assert {tcp.held for tcp in steady} == {3 * message}
    for before, after in itertools.pairwise(steady):
        assert after.read - before.read == after.entered - before.entered == 3
        assert after.written - before.written == 3


def test_the_first_barrier_waits_for_the_last() -> None:
    tasks = run("10").tables["checkpoint_tasks"].to_pandas()
    (sink,) = tasks[tasks.stage == "sink"].itertuples()
    assert (sink.start_delay_ms, sink.alignment_ms) == (300, 210)
    messages = said("10", "edge", "credit", "backlog")
    data = [one for one in messages if one[1] == "BufferResponse"]
    quick = [one for one in data if one[2] == "quick->sink"]
    slow = [one for one in data if one[2] == "slow->sink"]
    barrier = quick.index((2.03, "BufferResponse", "quick->sink", 0, 0))
    assert quick[barrier + 1][0] == 2.53
    barrier = slow.index((2.26, "BufferResponse", "slow->sink", 0, 0))
    assert slow[barrier + 1][0] == 2.53
    resumed = [one[:3] for one in messages if one[1] == "ResumeConsumption"]
    assert resumed == [(2.52, "ResumeConsumption", edge) for edge in ("quick->sink", "slow->sink")]
    assert (2.54, "AddCredit", "slow->sink", 8, None) in messages


def test_rows_are_seen_with_their_checkpoint() -> None:
    seen = table("11", "delivery")
    steps = seen[seen.committed.diff() > 0]
    assert list(steps.index[:3]) == [2.1, 4.1, 8.1]
    assert list(steps.committed.iloc[:3]) == [201, 401, 802]
    assert (seen.written[5.0], seen.written[6.0], seen.committed[8.0]) == (499, 499, 401)
    assert (seen.visible_twice.max(), seen.lost.max()) == (0, 0)
    assert (steps.visibility_p50_ms[2.1], steps.visibility_max_ms[2.1]) == (1040, 2030)
    twice = table("11", "delivery", "stages.sink.guarantee=at-least-once").visible_twice
    assert twice[12.0] == 499 - 401
