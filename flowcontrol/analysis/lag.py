"""Lag: how far sources fall behind their logs, and what the lag of a watermark consists of."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables, mean_over_time, panel_of, within
from flowcontrol.analysis.panel import Panel
from flowcontrol.analysis.waits import is_late, most_behind_s, reads_in_batches
from flowcontrol.analysis.watermarks import Hold, Subtask, Watermarks, is_relative
from flowcontrol.analysis.wording import seconds
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


# --- How far sources fell behind their logs, and whether they caught up.
#
# A source is as far behind as its worst subtask (``lag_s``), with the records of all its subtasks
# (``lag_records``). It kept up if it was never further behind than a sample interval and, under a
# throttle that reads in batches, a trigger. Else the time to catch up counts from the sample at
# which most records waited to the first one at which they, and the oldest of all, are gone: the
# source is behind by no more than a hundredth of the longest, or by what a trigger explains.


_CAUGHT_UP = 0.01
"""Share of the largest lag from which on a source has caught up."""


@dataclass(frozen=True)
class Lag:
    """How a source fared with its log."""

    stage: str  # Which source
    max_records: int  # Most records that waited in the logs of all its subtasks together
    max_s: float  # Furthest that a subtask was behind, be it at another time (s)
    furthest_at_s: float  # When ``max_records`` waited (s)
    end_records: int  # Records that wait at the end
    end_s: float  # How far the worst subtask is behind at the end (s)
    kept_up: bool  # It was never further behind than a sample interval and a trigger
    # Time from ``furthest_at_s`` until it had caught up; None if it had not, or kept up (s).
    caught_up_after_s: float | None
    caught_up_at_s: float | None  # When that was (s)
    oldest_at_s: float  # When it was ``max_s`` behind (s)
    is_behind_again: bool  # It had caught up, and has not at the end

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json, with its sentence."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """What became of the lag, in a sentence."""
        at_most = f"{_records(self.max_records)}, {seconds(self.max_s)} s"
        if self.kept_up:
            return f"{self.stage} kept up with its log: at most {at_most} behind."
        if self.caught_up_after_s is None:
            return (
                f"{self.stage} has not caught up with its log: {_records(self.end_records)}, "
                f"{seconds(self.end_s)} s behind at the end."
            )
        is_one = self.oldest_at_s == self.furthest_at_s
        text = (
            f"{self.stage} fell {at_most if is_one else _records(self.max_records)} behind its log "
            f"and caught up after {seconds(self.caught_up_after_s)} s (from "
            f"{seconds(self.furthest_at_s)} s on)"
        )
        if not is_one:
            text += f"; at {seconds(self.oldest_at_s)} s it was {seconds(self.max_s)} s behind"
        if self.is_behind_again:
            text += (
                f"; at the end it is {_records(self.end_records)}, "
                f"{seconds(self.end_s)} s behind again"
            )
        return f"{text}."


def find_lags(tables: Tables, scenario: Scenario) -> list[Lag]:
    """Return how each source that reads a log fared with it, in the order of the scenario.

    ``tables``: ``stages`` of a run. Without a sample there is nothing to say.
    """
    names = [stage.name for stage in scenario.stages if stage.reads_log]
    samples = panel_of(tables, "stages") if names else None
    if samples is None or not len(samples):
        return []
    most_s, is_batched = most_behind_s(samples, scenario), reads_in_batches(scenario)
    return [_lag(name, samples.of("stage", name), most_s, is_batched) for name in names]


def _lag(name: str, rows: Panel, most_s: float, is_batched: bool) -> Lag:
    """Return the lag of a source that may be ``most_s`` behind."""
    records = rows.per_sample(["lag_records"])["lag_records"].tolist()
    worst = rows.per_sample(["lag_s"], "max")
    times, ages = worst["t_s"].tolist(), worst["lag_s"].tolist()
    max_s = max(ages)
    most_at_s, oldest_at_s = times[records.index(max(records))], times[ages.index(max_s)]
    is_behind = worst["lag_s"] > _CAUGHT_UP * max_s
    if is_batched:
        is_behind = is_late(worst, most_s)
    kept_up = max_s <= most_s
    later = max(most_at_s, oldest_at_s)
    free = (t for t, behind in zip(times, is_behind, strict=True) if t > later and not behind)
    at_s = None if kept_up else next(free, None)
    return Lag(
        stage=name,
        max_records=max(records),
        max_s=max_s,
        furthest_at_s=most_at_s,
        end_records=records[-1],
        end_s=ages[-1],
        kept_up=kept_up,
        caught_up_after_s=None if at_s is None else at_s - most_at_s,
        caught_up_at_s=at_s,
        oldest_at_s=oldest_at_s,
        is_behind_again=at_s is not None and bool(is_behind[-1]),
    )


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


# --- What the lag of a watermark consists of: the source's delay, and the wait on each hop.
#
# Watermarks queue behind the records that they follow. At a task, the lag is the delay of the
# source, what its probes add, and on each hop to the task the time that records wait there: how
# many are in flight over how many are taken up (section 6 of checkpoints-and-time). The parts are
# measured, by comparing watermarks; beside them stands this closed form.


_US_PER_MS: Final = 1000
_MS_PER_S: Final = 1000.0

_BELOW_MS: Final = 1.0
"""A watermark is below the largest event time, less the delay, by this (Flink's ``- 1``)."""


@dataclass(frozen=True)
class Hop:
    """How much later a watermark is at a receiver than at its sender."""

    edge: str  # Name of the edge
    sender: int  # sender, receiver: subtasks
    receiver: int
    wait_ms: float  # Mean difference of the two watermarks, of event time (ms)
    in_flight_records: float  # Mean on this channel (records)
    rate: float  # What the receiver took off this channel (records/s)
    # The closed form, in flight over rate; None if nothing was taken up (ms).
    expected_ms: float | None


@dataclass(frozen=True)
class Apart:
    """The lag of one subtask by its parts, which add up to it; means over a part of a run."""

    stage: str  # Whose watermark
    subtask: int  # Which of its subtasks
    from_s: float  # from_s, until_s: the part of the run (s)
    until_s: float
    lag_ms: float  # lag_ms, max_ms: the mean lag, and the longest at a sample (ms)
    max_ms: float
    relative: bool  # Whether it is behind the furthest source, in the event time of rows
    speed: float  # Event time that passes per emulated time: 1 but for rows that bring their own
    source: str  # The source that the watermark comes from
    source_subtask: int  # Which of its subtasks
    delay_ms: float  # Delay of its watermark; 0 if ``relative`` (ms)
    # By how much its records are behind the clock as stated; 0 if ``relative`` (ms).
    offset_ms: float
    # What is left of the source's own lag: probes, the time between records, being blocked (ms).
    at_source_ms: float
    # The closed form of it: 1 ms, half an interval of probes (where samples and probes are in step,
    # anything from none to a whole one), and the age of the largest event time (ms).
    at_source_expected_ms: float | None
    source_rate: float  # What the source's subtask emitted (records/s)
    # The source's watermark and since when it stands there; None if it moved in this part (s).
    stands_at_s: float | None
    stands_since_s: float | None
    # From the source to the stage; none under Spark's event time, which no channel carries.
    hops: tuple[Hop, ...]
    # The closed form: delay, offset, that of the source and of all hops; None if it is not known of
    # one (ms).
    expected_ms: float | None

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return asdict(self) | {"hops": [asdict(hop) for hop in self.hops]}


def take_apart(marks: Watermarks) -> Apart | None:
    """Take the longest mean lag of a stage apart.

    Of the stage that is furthest behind, of several the last one; None if there is no lag, or its
    parts are not known of the same samples.
    """
    target = _target(marks)
    if target is None:
        return None
    chain: list[Subtask] = [target]
    path: list[Hold] = []
    while (hold := marks.holder(*chain[0])) is not None and not hold.is_silent:
        path.insert(0, hold)
        chain.insert(0, (hold.stage, hold.subtask))
    origin = chain[0]
    if hold is not None or marks.scenario.inputs(origin[0]):
        return None
    if marks.scenario.time_model == "spark":
        chain, path = [target], []
    lags = _lags(marks, chain)
    return None if lags.empty else _made(marks, chain, origin, path, lags)


def _target(marks: Watermarks) -> Subtask | None:
    """Return the subtask with the longest lag, of several that of the last stage."""
    order = [stage.name for stage in marks.scenario.topological()]

    def lag_then_late(one: Subtask) -> tuple[float, int]:
        return marks.lag_ms[one], order.index(one[0])

    return max(marks.lag_ms, key=lag_then_late, default=None)


def _lags(marks: Watermarks, chain: list[Subtask]) -> pd.DataFrame:
    """Return a row per sample with the lags of some subtasks, where all are known, as 0, 1 ..."""
    rows = within(marks.frame, marks.window)
    found = rows[["t_s", "interval_s"]].drop_duplicates("t_s").set_index("t_s")
    for index, (stage, subtask) in enumerate(chain):
        own = rows[(rows["stage"] == stage) & (rows["subtask"] == subtask) & ~rows["is_idle"]]
        found[str(index)] = own.set_index("t_s")["lag_ms"]
    return found.dropna()


def _made(
    marks: Watermarks, chain: list[Subtask], origin: Subtask, path: list[Hold], lags: pd.DataFrame
) -> Apart:
    """Return the parts of a lag; ``lags`` has a column for each subtask of the chain."""
    (stage, subtask), last = chain[-1], len(chain) - 1
    means = [mean_over_time(lags, str(index)) for index in range(len(chain))]
    relative = is_relative(marks.scenario, stage)
    stated = _Stated.of(marks, origin, relative=relative)
    speed = _speed(marks, origin) if relative else 1.0
    waits = [after - before for before, after in pairwise(means)]
    hops = tuple(
        Hop(
            edge=hold.edge,
            sender=hold.subtask,
            receiver=receiver,
            wait_ms=wait_ms,
            in_flight_records=hold.in_flight_records,
            rate=hold.rate,
            expected_ms=None if hold.wait_ms is None else hold.wait_ms * speed,
        )
        for hold, (_, receiver), wait_ms in zip(path, chain[1:], waits, strict=True)
    )
    forms = [hop.expected_ms for hop in hops if hop.expected_ms is not None]
    expected = stated.expected_ms if hops and len(forms) == len(hops) else None
    return Apart(
        stage=stage,
        subtask=subtask,
        from_s=marks.window[0],
        until_s=marks.window[1],
        lag_ms=means[-1],
        max_ms=float(lags[str(last)].max()),
        relative=relative,
        speed=speed,
        source=origin[0],
        source_subtask=origin[1],
        delay_ms=stated.delay_ms,
        offset_ms=stated.offset_ms,
        at_source_ms=means[0] - stated.delay_ms - stated.offset_ms,
        at_source_expected_ms=stated.at_source_ms,
        source_rate=marks.rate(origin, "records_out"),
        **_standing(marks, origin),
        hops=hops,
        expected_ms=None if expected is None else expected + sum(forms),
    )


@dataclass(frozen=True)
class _Stated:
    """What a scenario states of the lag of a source, ms; ``at_source_ms``: None if it does not."""

    delay_ms: float = 0.0
    offset_ms: float = 0.0
    at_source_ms: float | None = None

    @classmethod
    def of(cls, marks: Watermarks, source: Subtask, *, relative: bool) -> _Stated:
        stage = marks.scenario.stage(source[0])
        own, mark = stage.event_time, stage.watermark
        if relative or own is None or mark is None:
            return cls()
        delay_ms, offset_ms = float(mark.delay_ms), 0.0 - own.offset_ms[source[1]]
        is_periodic = not mark.punctuated and marks.scenario.time_model == "flink"
        rate = marks.rate(source, "records_out")
        if not is_periodic or rate <= 0:
            return cls(delay_ms, offset_ms)
        probes_ms = marks.scenario.options.watermark_interval_us / _US_PER_MS / 2
        age_ms = _age_ms(own.out_of_orderness_ms[source[1]], rate)
        return cls(delay_ms, offset_ms, _BELOW_MS + probes_ms + age_ms)

    @property
    def expected_ms(self) -> float | None:
        """Lag of a source that nothing holds up."""
        if self.at_source_ms is None:
            return None
        return self.delay_ms + self.offset_ms + self.at_source_ms


def _age_ms(out_of_orderness_ms: int, rate: float) -> float:
    """Return how old the largest event time of a source is in the mean, ms.

    Of a rate r of records that lie behind by up to D, evenly, r x dx / D lie within x to x + dx of
    now. So none lies within x with probability exp(-r x^2 / (2 D)), whose integral over x is the
    mean, sqrt(pi D / (2 r)). It holds as well for an exponential D that is long against that.
    """
    longest_s = out_of_orderness_ms / _MS_PER_S
    return _MS_PER_S * math.sqrt(math.pi * longest_s / (2.0 * rate))


def _watermarks_of(marks: Watermarks, who: Subtask) -> pd.DataFrame:
    frame = marks.frame
    is_own = (frame["stage"] == who[0]) & (frame["subtask"] == who[1])
    found: pd.DataFrame = frame[is_own & frame["watermark_s"].notna()]
    return found


def _speed(marks: Watermarks, source: Subtask) -> float:
    """Return how much event time passes per emulated time; 1 if that is not known."""
    rows = within(_watermarks_of(marks, source), marks.window)
    if len(rows) < 2:
        return 1.0
    first, last = rows.iloc[0], rows.iloc[-1]
    return float((last["watermark_s"] - first["watermark_s"]) / (last["t_s"] - first["t_s"]))


def _standing(marks: Watermarks, source: Subtask) -> dict[str, float | None]:
    """Return where a watermark stands and since when; None if it moved in this part of the run."""
    rows = _watermarks_of(marks, source)
    inside = within(rows, marks.window)["watermark_s"]
    if len(inside) < 2 or inside.nunique() > 1:
        return {"stands_at_s": None, "stands_since_s": None}
    at_s = float(inside.iloc[0])
    since = rows[rows["watermark_s"] == at_s]["t_s"].min()
    return {"stands_at_s": at_s, "stands_since_s": float(since)}
