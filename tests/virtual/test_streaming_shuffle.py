"""Spark's streaming shuffle in runs: siblings of a slow reader by its closed forms, and batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual import simulate

pytestmark = pytest.mark.usefixtures("whole_kernel")

CONF = Path(__file__).resolve().parents[2] / "conf"
EXAMPLES = settings.default.max_examples // 2
SIZE, HEADER, SLOW = 1000, 32, 50
"""Bytes of a row and of a header; what the slow reader does, records/s: one in four rounds."""


class Shown:
    """What each subtask of B has taken up at the end of each second, and what lies before it."""

    def __init__(self, scenario: Any) -> None:
        tables = simulate(scenario).tables
        stages, channels = tables["stages"].to_pandas(), tables["channels"].to_pandas()
        own = stages[stages.stage == "B"]
        self.taken = own.set_index(["t_s", "subtask"])["records_in"].unstack()
        flight = channels.set_index(["t_s", "receiver"])["in_flight_records"]
        self.flight = flight.groupby(level=[0, 1]).sum().unstack()
        self.emitted = stages[stages.stage == "A"].groupby("t_s")["records_out"].sum()

    def rates(self, start_s: float, end_s: float) -> list[float]:
        grown = self.taken.loc[end_s] - self.taken.loc[start_s]
        return [float(rate) for rate in grown / (end_s - start_s)]


def job(
    duration_s: int, shares: list[int], throttle: Any = "none", sample_s: float = 1, **values: float
) -> Any:
    """A writer of 4,000 rows/s, and readers by their shares, of which the first is slow."""
    transport = {"name": "push_quota", "socket_bytes": 0, "kernel_bytes": 0, "fill": 1, **values}
    return parse_scenario(
        {
            "schema": 1, "name": "siblings", "duration_s": duration_s, "round_ms": 5,
            "sample_interval_s": sample_s,
            "system": {"transport": transport, "throttle": throttle},
            "stages": [
                {"name": "A", "arrival_rate": 4000, "emit_rate": 4000, "record_bytes": SIZE},
                {"name": "B", "parallelism": len(shares),
                 "service_rate": [SLOW, *[5000] * (len(shares) - 1)]},
            ],
            "edges": [{"from": "A", "to": "B", "partitioner": "hash", "channel_weights": shares}],
        }
    )  # fmt: skip


@pytest.mark.holds("push_quota", "virtual", "closed forms: siblings, what is in flight")
@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda others: [1, *others]),
    st.integers(1, 5),
    st.integers(8, 30),
    st.integers(1, 12),
)
def test_siblings_of_a_slow_reader(shares: list[int], rows: int, places: int, held: int) -> None:
    """Of M buffers: μ p_i / (p k) for M k / μ, from then on μ p_i / p.

    A message of k rows frees a place, and a place is a row for the slow reader, if a sibling's rows
    come between its own.
    """
    buffer = rows * SIZE
    quota = held * (buffer + HEADER)
    places = max(places, 2 * len(shares))
    turn_s, share = places * rows / SLOW, shares[0] / sum(shares)
    fill_s = (places + held + 1) * rows / (4000 * share - SLOW)
    turned_s = math.ceil(fill_s + turn_s)
    shown = Shown(
        job(turned_s + 22, shares, buffer_bytes=buffer, writer_bytes=places * buffer,
            reader_bytes=quota, flush_ms=10**6)
    )  # fmt: skip
    begun_s = math.ceil(fill_s)
    if turned_s - 1 - begun_s > 2:  # a sibling's last messages are done by then
        expected = [SLOW / share * part / sum(shares) / rows for part in shares]
        found = shown.rates(begun_s + 1, turned_s - 1)
        assert found[1:] == pytest.approx(expected[1:], rel=0.1, abs=2)
    found = shown.rates(turned_s + 2, turned_s + 22)
    expected = [SLOW / share * part / sum(shares) for part in shares]
    assert found == pytest.approx(expected, rel=0.05, abs=1)
    # At the reader ceil(q / s) messages, a row in service and what its socket takes, one at least;
    # the writer's places in messages of one row.
    in_flight = float(shown.flight.loc[turned_s + 22][0])
    messages = -(-quota // (SIZE + HEADER)) + 1 + places
    assert in_flight == pytest.approx(messages, abs=len(shares) + 2)
    most = (held + 1 + places) * rows
    assert float(shown.flight[0].max()) <= most + rows


@pytest.mark.holds("push_quota", "virtual", "`conf/siblings.yaml`: what its first lines say")
def test_siblings_by_sparks_defaults() -> None:
    shown = Shown(load_scenario(CONF / "siblings.yaml"))
    assert shown.rates(2, 19) == pytest.approx([200, 2000, 2000], rel=0.01)
    assert shown.rates(24, 54) == pytest.approx([200, 56, 56], rel=0.03)
    assert shown.rates(60, 80) == pytest.approx([200, 400, 400], rel=0.01)
    below = shown.taken.diff()[1] < 300
    assert [below.idxmax(), int(below.sum())] == pytest.approx([20, 36], abs=1.5)


def test_siblings_under_credits() -> None:
    path = CONF / "siblings.yaml"
    shown = Shown(load_scenario(path, overrides=["system=flink", "duration_s=8"]))
    assert shown.rates(2, 8) == pytest.approx([200, 400, 400], rel=0.05)


@pytest.mark.holds("long_batches", "virtual", "the gap: drain and overhead, random jobs")
@settings(max_examples=EXAMPLES)
@given(st.integers(2, 5), st.integers(0, 3), st.integers(4, 20), st.integers(2, 4))
def test_the_gap_of_a_batch(batch_s: int, overhead_s: int, held: int, share: int) -> None:
    """Drain is what lies before the slowest reader over its rate; nothing is read until then."""
    throttle = {
        "name": "long_batches",
        "batch_ms": 1000 * batch_s,
        "overhead_ms": 1000 * overhead_s,
    }
    shown = Shown(
        job(batch_s + 15, [1, share], throttle, 0.1, buffer_bytes=5 * SIZE,
            writer_bytes=20 * 5 * SIZE, reader_bytes=held * 5 * SIZE, flush_ms=50)
    )  # fmt: skip
    before = shown.flight.loc[:batch_s].iloc[-1]
    times, emitted = shown.emitted.index.to_numpy(), shown.emitted.to_numpy()
    moved = np.diff(emitted) > 2  # a row in hand is written
    goes_on = times[1:][moved & (times[:-1] > batch_s - 0.01)][0]
    gap_s = float(goes_on) - batch_s
    assert gap_s == pytest.approx(float(before[0]) / SLOW + overhead_s, abs=0.25)
    assert gap_s > 0.5


@settings(max_examples=EXAMPLES)
@given(st.integers(2, 5), st.integers(3, 9))
def test_a_failure_reads_a_batch_again(batch_s: int, held: int) -> None:
    """As checkpoints of a batch's length have it: up to the batch and its drain.

    The failure comes when the second batch is nearly done; the barrier at the end of the first one
    passed what lay before the slow reader then.
    """
    failed_s = 2 * batch_s - 0.1
    scenario = parse_scenario(
        {
            "schema": 1, "name": "replay", "duration_s": 2 * batch_s + 4, "round_ms": 5,
            "system": {"transport": {"name": "push_quota", "socket_bytes": 0, "kernel_bytes": 0,
                                     "buffer_bytes": 5 * SIZE, "writer_bytes": 50 * SIZE,
                                     "reader_bytes": held * 5 * SIZE}},
            "options": {"execution.checkpointing.interval": f"{batch_s}s",
                        "execution.checkpointing.mode": "AT_LEAST_ONCE"},
            "failures": [{"at_s": failed_s, "task_manager": 0}],
            "stages": [
                {"name": "A", "arrival_rate": 400, "emit_rate": 400, "record_bytes": SIZE},
                {"name": "B", "parallelism": 2, "service_rate": [100, 5000]},
            ],
            "edges": [{"from": "A", "to": "B", "partitioner": "rebalance"}],
        }
    )  # fmt: skip
    tables = simulate(scenario).tables
    [failure] = tables["restarts"].to_pylist()
    assert failure["checkpoint_id"] == 1
    stages = tables["stages"].to_pandas()
    emitted = stages[stages.stage == "A"].set_index("t_s")["records_out"]
    read = int(emitted.loc[:failed_s].iloc[-1] - emitted.loc[batch_s])
    drain_s = (held + 1 + 10) * 5 / 100
    most = 400 * (failed_s - batch_s + drain_s)
    assert 0 < failure["records_reprocessed"] <= most
    assert failure["records_reprocessed"] >= read / 2
