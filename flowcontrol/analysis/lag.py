"""How far sources fell behind their logs, and whether they caught up.

A source is as far behind as its worst subtask (``lag_s``), with the records of all its subtasks
(``lag_records``). It kept up if it was never further behind than a sample interval and, under a
throttle that reads in batches, a trigger. Else the time to catch up counts from the sample at which
most records waited to the first one at which they, and the oldest of all, are gone: the source is
behind by no more than a hundredth of the longest, or by what a trigger explains.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flowcontrol.analysis.frames import Tables, panel_of
from flowcontrol.analysis.panel import Panel
from flowcontrol.analysis.waits import is_late, most_behind_s, reads_in_batches
from flowcontrol.analysis.wording import seconds
from flowcontrol.scenario import Scenario

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
