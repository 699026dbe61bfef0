"""Figures of a run's event time: watermark lag, late records, and the content of windows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.event_time_wording import event_time_sentences, run_sentences
from flowcontrol.analysis.frames import (
    Tables,
    end_of,
    growth,
    mean_over_time,
    result_frame,
    second_half_start,
    summed,
    within,
)
from flowcontrol.analysis.lag import take_apart
from flowcontrol.analysis.watermarks import Watermarks, is_relative
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd


_MOST_BLOCKED: Final = 0.5
"""Share of a sample from which a source that emits nothing does so since it is blocked."""

_MS_PER_S: Final = 1000.0


@dataclass(frozen=True)
class Silence:
    """A time in which the watermark of a source's subtask stood, as it had no records."""

    stage: str  # The source
    subtask: int  # Which of its subtasks
    from_s: float  # from_s, until_s: the last sample before it, and the last one in it (s)
    until_s: float

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return asdict(self)


def longest_silence(
    frame: pd.DataFrame, samples: pd.DataFrame, scenario: Scenario
) -> Silence | None:
    """Return the longest silence of a subtask that was not idle, blocked or paused; None: none.

    A subtask that has not had a watermark yet, or has ended, is no such case: others name it.

    - ``frame``: the table ``time`` in order.
    - ``samples``: the table ``stages`` in order.
    """
    found: list[Silence] = []
    for stage in scenario.sources:
        if not is_relative(scenario, stage.name) and stage.watermark is not None:
            found += _silences(frame, samples, stage)
    return max(found, key=lambda one: one.until_s - one.from_s, default=None)


def _silences(frame: pd.DataFrame, samples: pd.DataFrame, stage: Stage) -> list[Silence]:
    """Return all silences of a source."""
    keys = ["t_s", "stage", "subtask"]
    counted = samples[[*keys, "records_out", "backpressured_ms_per_s"]]
    rows = frame[frame["stage"] == stage.name].merge(counted, on=keys)
    found = []
    for subtask, own in rows.groupby("subtask"):
        stood = own["watermark_s"].notna() & own["watermark_s"].eq(own["watermark_s"].shift())
        stood &= own["records_out"].eq(own["records_out"].shift()) & ~own["is_idle"].astype(bool)
        stood &= own["backpressured_ms_per_s"] < _MOST_BLOCKED * _MS_PER_S
        stood &= own["paused_ms_per_s"] == 0
        before = own["t_s"].shift()
        for _, part in own[stood].groupby((~stood).cumsum()):
            from_s = float(before[part.index[0]])
            found.append(Silence(stage.name, int(str(subtask)), from_s, float(part["t_s"].max())))
    return found


def time_frame(tables: Tables, scenario: Scenario) -> pd.DataFrame:
    """Return the table ``time`` with the lag of each watermark.

    ``tables``: results of a run; a missing table counts as empty.

    Returns its columns, ``interval_s``, and ``lag_ms``: ``watermark_lag_ms``, or, where the rows of
    a source before the stage bring their own event time, by how much the watermark is behind the
    furthest one of these sources, ms of event time. NaN without a watermark.
    """
    frame = result_frame(tables, "time")
    lags = frame["watermark_lag_ms"].astype("float64")
    for stage in scenario.stages:
        sources = scenario.timed_by(stage.name)
        if not sources:
            continue
        # What a stage has, its sources have given out, also between two samples.
        given_out = frame[frame["stage"].isin([stage.name, *sources])]
        marks = given_out.groupby("t_s")["watermark_s"].max()
        furthest = marks.astype("float64").cummax().ffill()
        own = frame["stage"] == stage.name
        behind = frame["t_s"].map(furthest) - frame["watermark_s"].astype("float64")
        lags = lags.mask(own, 1000.0 * behind)
    return frame.assign(lag_ms=lags)


def event_time_summary(tables: Tables, scenario: Scenario, round_ms: float = 0.0) -> dict[str, Any]:
    """Return what ``summary.json`` says of event time.

    - ``tables``: results of a run, with ``time``.
    - ``round_ms`` (ms): length of a round.

    Returns
    -------
    dict
        ``stages``, of each by its name:

        - ``lag``: of the subtask furthest behind at each sample ``mean_ms``, ``second_half_ms``
          (null if all had ended), ``max_ms`` and ``end_ms`` (of the last sample with one); null
          without a watermark.
        - ``relative``: whether ``lag`` is behind the sources, as rows bring their own time.
        - ``furthest_behind``: the subtask, or null; ``held_by``: which of its inputs holds it
          back, with ``edge``, ``stage``, ``subtask``, ``is_silent`` (it has sent no watermark),
          ``lag_ms`` and ``wait_ms``, or null; both of the second half.
        - ``late_records``, ``records_in`` and ``fired``, in all; ``max_fired``, most results
          between two samples; ``max_open_windows`` and ``max_window_state_bytes``, of all subtasks
          together.
        - ``paused_ms_per_s``, mean of the subtasks; ``most_paused``, the one paused for the longest
          time, and ``most_paused_ms_per_s``; ``waits_for``, the ``stage`` and ``subtask`` of its
          group that was behind it while it was paused, or null; ``idle_share``, of subtasks and
          samples.

        ``apart``: the longest lag of a stage, taken apart
        (:class:`flowcontrol.analysis.lag.Apart`), or null, also if a watermark has not come
        to all stages; ``time_model``, whose time it is: with Spark's ``late_records`` counts
        groups; ``silent``: a stage that no
        watermark has reached, and whom it waits for, or null; ``silence``, the longest time in
        which the watermark of a source's subtask stood, as it emitted nothing and was not idle
        (:class:`Silence`), or null; ``sentences``, and which of them
        ``matter`` to the run.
    """
    frame, samples = time_frame(tables, scenario), result_frame(tables, "stages")
    window = (second_half_start(tables), end_of(tables))
    marks = Watermarks(frame, samples, result_frame(tables, "channels"), scenario, window)
    stages = {
        stage.name: _stage(stage, frame[frame["stage"] == stage.name], samples, marks)
        for stage in scenario.stages
    }
    silent = marks.silent_stage()
    apart = take_apart(marks) if silent is None else None
    silence = longest_silence(frame, samples, scenario)
    found: dict[str, Any] = {
        "stages": stages,
        "time_model": scenario.time_model,
        "apart": None if apart is None else apart.document(),
        "silent": silent,
        "silence": None if silence is None else silence.document(),
    }
    found["sentences"] = event_time_sentences(found, scenario)
    found["matter"] = run_sentences(found, scenario, round_ms)
    return found


def _stage(
    stage: Stage, rows: pd.DataFrame, samples: pd.DataFrame, marks: Watermarks
) -> dict[str, Any]:
    """Return the figures of one stage."""
    worst = marks.furthest_behind(stage.name)
    holder = None if worst is None else marks.holder(stage.name, worst)
    whole = (0.0, marks.window[1])
    taken = samples[samples["stage"] == stage.name]
    paused = {int(str(n)): mean_over_time(p, "paused_ms_per_s") for n, p in rows.groupby("subtask")}
    longest = max(paused, key=lambda subtask: paused[subtask], default=None)
    most = longest if longest is not None and paused[longest] > 0 else None
    levels = summed(rows, ["open_windows", "window_state_bytes", "fired"])
    return {
        "lag": _lag(rows, marks.window),
        "relative": is_relative(marks.scenario, stage.name),
        "furthest_behind": worst,
        "held_by": None if holder is None else holder.document(),
        "late_records": growth(rows, ["subtask"], "late_records", whole),
        "records_in": growth(taken, ["subtask"], "records_in", whole),
        "fired": growth(rows, ["subtask"], "fired", whole),
        "max_fired": _largest(levels["fired"].diff().fillna(levels["fired"])),
        "max_open_windows": _largest(levels["open_windows"]),
        "max_window_state_bytes": _largest(levels["window_state_bytes"]),
        "paused_ms_per_s": mean_over_time(rows, "paused_ms_per_s"),
        "most_paused": most,
        "most_paused_ms_per_s": max(paused.values(), default=0.0),
        "waits_for": _waited_for(stage, most, marks),
        "idle_share": mean_over_time(rows, "is_idle"),
    }


def _waited_for(stage: Stage, subtask: int | None, marks: Watermarks) -> dict[str, Any] | None:
    """Return whom a paused source waits for."""
    if subtask is None or stage.watermark is None or stage.watermark.alignment is None:
        return None
    found = marks.waited_for((stage.name, subtask), stage.watermark.alignment.group)
    return None if found is None else {"stage": found[0], "subtask": found[1]}


def _lag(rows: pd.DataFrame, window: tuple[float, float]) -> dict[str, float | None] | None:
    """Return the lag of the subtask that is furthest behind at each sample."""
    known = rows[rows["lag_ms"].notna() & ~rows["is_idle"]]
    if known.empty:
        return None
    worst = summed(known, "lag_ms", "max")
    half = within(worst, window)
    return {
        "mean_ms": mean_over_time(worst, "lag_ms"),
        "second_half_ms": mean_over_time(half, "lag_ms") if len(half) else None,
        "max_ms": float(worst["lag_ms"].max()),
        "end_ms": float(worst["lag_ms"].iloc[-1]),
    }


def _largest(values: pd.Series[int]) -> int:
    return int(values.max()) if len(values) else 0
