"""What a real Flink's barriers met on their way is what the emulation holds in flight.

No barrier is emulated here. An aligned barrier arrives when all records before it are processed,
and an unaligned one persists what is in flight: both measure what steady backpressure keeps.
"""

from __future__ import annotations

from functools import cache

import compare
import pyarrow.compute as pc
import pytest
import runs

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

SERVICE_RATE = 500
"""Records/s of the slow stage of every job; those in front of it drain no faster."""


@cache
def in_flight(job: str) -> dict[tuple[str, int, int], float]:
    """Mean records in flight of each channel, by edge, sender and receiver."""
    stated = runs.scenario(runs.RunName(job, "aligned"))
    options = {key: value for key, value in stated["options"].items() if "checkpoint" not in key}
    # Samples are no multiple of the 64.4 ms in which a segment is emptied: they meet all phases.
    stated |= {"options": options, "duration_s": 25, "sample_interval_s": 0.0405}
    channels = simulate(parse_scenario(stated)).tables["channels"]
    steady = channels.filter(pc.greater(channels["t_s"], runs.WARM_UP_S))
    means = steady.group_by(["edge", "sender", "receiver"]).aggregate(
        [("in_flight_records", "mean")]
    )
    return {
        (row["edge"], row["sender"], row["receiver"]): row["in_flight_records_mean"]
        for row in means.to_pylist()
    }


def measured(name: str) -> dict[tuple[str, str], float]:
    job, _, mode = name.rpartition("-")
    return compare.figures(compare.read(compare.MEASURED, runs.RunName(job, mode)))


@pytest.mark.holds("credit", "virtual", "what barriers of a real Flink met on their way")
@pytest.mark.parametrize(
    ("place", "figure", "hops"),
    [
        ("map/0", "start_delay_ms", ["source->map"]),
        ("sink/0", "start_delay_ms", ["source->map", "map->sink"]),
        ("checkpoint", "e2e_ms", ["source->map", "map->sink"]),
    ],
)
def test_an_aligned_barrier_takes_what_is_in_flight_over_the_rate(
    place: str, figure: str, hops: list[str]
) -> None:
    records = sum(in_flight("chain")[hop, 0, 0] for hop in hops)
    expected = 1000 * records / SERVICE_RATE
    assert measured("chain-aligned")[place, figure] == pytest.approx(expected, rel=0.03)


@pytest.mark.holds("credit", "virtual", "what barriers of a real Flink met on their way")
@pytest.mark.parametrize("job", ["chain", "exchange", "even-exchange"])
def test_an_unaligned_checkpoint_persists_what_is_in_flight(job: str) -> None:
    expected = 1017 * sum(in_flight(job).values())
    persisted = measured(f"{job}-unaligned")["checkpoint", "persisted_bytes"]
    assert persisted == pytest.approx(expected, rel=0.05)


@pytest.mark.holds("credit", "virtual", "what barriers of a real Flink met on their way")
def test_alignment_is_what_the_full_channel_holds_over_the_rate() -> None:
    records = in_flight("exchange")["source->sink", 1, 0]
    aligned = measured("exchange-aligned")
    delay, alignment = aligned["sink/0", "start_delay_ms"], aligned["sink/0", "alignment_ms"]
    assert delay < alignment / 4
    # Until the first barrier the sink also serves the other channel; then this one alone.
    assert delay + alignment == pytest.approx(1000 * records / SERVICE_RATE, rel=0.05)
