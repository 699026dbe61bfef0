"""The virtual clock against a real Flink job: model, measured, error of each figure.

    python bench/against_flink.py

What was measured: Flink 1.20.1, two task managers with one slot each, so that the exchange crosses
the network with credits; chaining off; source (parallelism 1) -> rebalance -> sink (parallelism 1).
Records of 1,017 bytes serialised (4 length, 1 tag, 8 timestamp, 4 array length, 1,000 payload),
32.22 to a segment of 32 KiB. The source emits up to its rate while its output is available, in
steps of 1 ms, and does not catch up after having been blocked; the sink takes a constant time a
record, slept in quanta of at least 1 ms. Buffer timeout 100 ms, at most 10 buffers a channel,
overdraft 5, debloating off, 2,048 segments a task manager. The machine was otherwise idle. Two
repetitions of each run; half their range is smaller than the tolerances.

In flight are records emitted by the source less those processed by the sink. ``out used`` are
buffers of the source's result pool in use, ``floating used`` floating buffers of the sink's gate;
latency runs from emission to the start of processing; back-pressured and idle are from Flink's
accumulated timers. A round of the model is 1 ms, the quantum of that job.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flowcontrol.scenario import Scenario, parse_scenario

FINE_S, COARSE_S = 0.01, 1.0
"""Sample intervals: levels and moments need the first, percentiles the second."""

LIGHT_RECORDS = 100
"""In flight below which a load is light: its tolerances are absolute."""

STEPS = {
    "emit_rate": [{"at_s": 0, "rate": 6000}, {"at_s": 40, "rate": 10000}],
    "service_rate": [
        {"at_s": 0, "rate": 20000},
        {"at_s": 20, "rate": 3000},
        {"at_s": 40, "rate": 20000},
        {"at_s": 60, "rate": 3000},
        {"at_s": 80, "rate": 20000},
    ],
}
CONSTANT = {"emit_rate": 10000, "service_rate": 3000}


class Run(NamedTuple):
    """One run: its rates, its length, its buffers."""

    name: str
    rates: Mapping[str, Any]
    duration_s: int
    exclusive: int
    floating: int


A = Run("steps, 2 + 8", STEPS, 100, 2, 8)
B_DEFAULT = Run("slow sink, 2 + 8", CONSTANT, 20, 2, 8)
B_SMALL = Run("slow sink, 1 + 1", CONSTANT, 20, 1, 1)

RUNS = (A, B_DEFAULT, B_SMALL)
AFTER_S = 2
"""For how long after a step its delay is looked for, s."""

FIGURES = (
    "source rec/s",
    "sink rec/s",
    "in flight rec",
    "out used",
    "floating used",
    "blocked ms/s",
    "idle ms/s",
    "p50 ms",
    "mean ms",
)
# Window in s, and a column for each of FIGURES; None was not measured.
MEASURED: tuple[tuple[Run, tuple[int, int], tuple[float | None, ...]], ...] = (
    (A, (3, 20), (6000, 6000, 20, 1.03, 0.19, 0, 959, 3.4, None)),
    (A, (23, 40), (2999, 2999, 586, 9.46, 8.00, 474, 501, 195.4, None)),
    (A, (43, 60), (10000, 10000, 22, 1.06, 0.34, 0, 960, 2.3, None)),
    (A, (63, 80), (2999, 3000, 590, 9.68, 8.00, 694, 296, 196.3, None)),
    (A, (83, 100), (10000, 9999, 22, 1.05, 0.33, 0, 974, 2.3, None)),
    (B_DEFAULT, (2, 18), (None, 2992, 588.2, 9.68, 8.00, 677, None, 196.5, 196.8)),
    (B_SMALL, (2, 18), (None, 2993, 72.7, 1.69, 1.00, 671, None, 24.2, 24.4)),
)
# After a step of the sink: for how long the source goes on at its own rate, or is held still.
DELAYS_MS = (
    (20, "goes on", 187.0),
    (40, "held still", 1.0),
    (60, "goes on", 80.0),
    (80, "held still", 1.0),
)


@dataclass(frozen=True)
class Row:
    """One figure beside its measurement.

    Attributes
    ----------
    place : str
        Run and window.
    figure : str
        What it is, with its unit.
    model, measured : float
        Both values.
    tolerance : float
        Absolute, in the figure's unit.
    """

    place: str
    figure: str
    model: float
    measured: float
    tolerance: float

    @property
    def error(self) -> float:
        """Model less measured."""
        return self.model - self.measured

    @property
    def holds(self) -> bool:
        """Whether the error is within the tolerance."""
        return abs(self.error) <= self.tolerance


def tolerance(figure: str, measured: float, is_light: bool) -> float:
    """Return by how much the model may differ, in the figure's unit."""
    if figure.endswith("rec/s"):
        return 0.01 * measured
    if figure == "in flight rec":
        return 12.0 if is_light else 0.02 * measured
    if figure.endswith("used"):
        return 0.3
    if figure.endswith("ms/s"):
        return 30.0
    return 1.0 if is_light else 0.02 * measured


def scenario(run: Run, sample_interval_s: float) -> Scenario:
    """Return a run as a scenario."""
    memory = "taskmanager.network.memory."
    return parse_scenario(
        {
            "schema": 1,
            "name": "flink",
            "duration_s": run.duration_s,
            "round_ms": 1,
            "sample_interval_s": sample_interval_s,
            "cluster": {"task_managers": 2, "slots": 1, "network_latency_ms": 0.1},
            "options": {
                memory + "buffers-per-channel": run.exclusive,
                memory + "floating-buffers-per-gate": run.floating,
            },
            "stages": [
                {"name": "source", "emit_rate": run.rates["emit_rate"], "record_bytes": 1017},
                {"name": "sink", "service_rate": run.rates["service_rate"]},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )


class Model:
    """The runs on the virtual clock, each once a sample interval.

    Parameters
    ----------
    simulate : callable
        Runs a scenario.
    end_s : int, s
        Where runs are cut off that are longer.
    """

    def __init__(self, simulate: Callable[[Scenario], Any], end_s: int) -> None:
        self._simulate, self._end_s = simulate, end_s
        self._known: dict[tuple[str, float], dict[str, pa.Table]] = {}

    def tables(self, run: Run, sample_interval_s: float) -> dict[str, pa.Table]:
        """Return the tables of a run."""
        key = run.name, sample_interval_s
        if key not in self._known:
            own = run._replace(duration_s=min(run.duration_s, self._end_s))
            self._known[key] = self._simulate(scenario(own, sample_interval_s)).tables
        return self._known[key]

    def figures(self, run: Run, window: tuple[int, int]) -> dict[str, float]:
        """Return all figures of a window."""
        fine = self.tables(run, FINE_S)
        source = _within(_of(fine["stages"], "source"), window)
        sink = _within(_of(fine["stages"], "sink"), window)
        latency = _within(self.tables(run, COARSE_S)["latency"], window)
        count = latency["count"]
        weighted = pc.sum(pc.multiply(latency["mean_ms"], count)).as_py()
        return {
            "source rec/s": _mean(source, "rate_out"),
            "sink rec/s": _mean(sink, "rate_in"),
            "in flight rec": _mean(_within(fine["channels"], window), "in_flight_records"),
            "out used": _mean(source, "output_pool_used"),
            "floating used": run.floating * _mean(sink, "floating_buffers_usage"),
            "blocked ms/s": _mean(source, "backpressured_ms_per_s"),
            "idle ms/s": _mean(source, "idle_ms_per_s"),
            "p50 ms": _mean(latency, "p50_ms"),
            "mean ms": weighted / pc.sum(count).as_py(),
        }

    def delay_ms(self, at_s: int, kind: str) -> float:
        """Return the delay after a step of run A, ms.

        The source goes on up to the interval in which it is first blocked, and in that one for as
        long as what it emits takes at its own rate; held still it is for as long as it is blocked.
        """
        source = _of(self.tables(A, FINE_S)["stages"], "source")
        rows = _within(source, (at_s, at_s + AFTER_S))
        blocked = rows["backpressured_ms_per_s"].to_pylist()
        if kind == "held still":
            return float(sum(blocked)) * FINE_S
        quiet = next((n for n, share in enumerate(blocked) if share > 0), len(blocked))
        rates = rows["rate_out"].to_pylist()
        part = rates[quiet] / rates[0] if quiet < len(rates) else 0.0
        return float(quiet + part) * FINE_S * 1000


def rows(
    simulate: Callable[[Scenario], Any], runs: Collection[Run] = RUNS, end_s: int = A.duration_s
) -> Iterator[Row]:
    """Yield every figure that was measured in some runs up to a moment, with the model's."""
    model = Model(simulate, end_s)
    for run, window, measured in MEASURED:
        if run not in runs or window[1] > end_s:
            continue
        found = model.figures(run, window)
        place = f"{run.name}, {window[0]}-{window[1]} s"
        in_flight = measured[FIGURES.index("in flight rec")] or 0.0
        is_light = in_flight < LIGHT_RECORDS and run is A
        for figure, value in zip(FIGURES, measured, strict=True):
            if value is not None:
                limit = tolerance(figure, value, is_light)
                yield Row(place, figure, found[figure], value, limit)
    for at_s, kind, measured_ms in DELAYS_MS:
        if A not in runs or at_s + AFTER_S > end_s:
            continue
        delay = model.delay_ms(at_s, kind)
        yield Row(f"{A.name}, step at {at_s} s", f"{kind} ms", delay, measured_ms, 15.0)


def _of(table: pa.Table, stage: str) -> pa.Table:
    return table.filter(pc.equal(table["stage"], stage))


def _within(table: pa.Table, window: tuple[int, int]) -> pa.Table:
    """Return the samples whose interval lies in a window."""
    start, end = (bound + FINE_S / 2 for bound in window)
    return table.filter(pc.and_(pc.greater(table["t_s"], start), pc.less(table["t_s"], end)))


def _mean(table: pa.Table, column: str) -> float:
    value: float = pc.mean(table[column]).as_py()
    return value


def main() -> int:
    """Print all figures; 0 if all are within their tolerances."""
    from flowcontrol.virtual import simulate

    found = list(rows(simulate))
    print(f"{'run':<28}{'figure':<16}{'model':>10}{'measured':>10}{'error':>9}{'allowed':>9}")
    for row in found:
        verdict = "" if row.holds else "  MISSED"
        print(
            f"{row.place:<28}{row.figure:<16}{row.model:>10.2f}{row.measured:>10.2f}"
            f"{row.error:>+9.2f}{row.tolerance:>9.2f}{verdict}"
        )
    missed = sum(not row.holds for row in found)
    print(f"{len(found) - missed} of {len(found)} figures are within their tolerances")
    return 0 if missed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
