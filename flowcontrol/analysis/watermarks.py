"""Which watermark is furthest behind in a part of a run, and which input holds it back.

A task's watermark is the least of its inputs' that are not idle (Flink's ``StatusWatermarkValve``).
The tables have the watermark of each subtask, not of each channel: that of a channel is its
sender's, and older by the time that records wait on it, which is how many are in flight over how
many are taken off it (Little's law).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from flowcontrol.analysis.frames import growth, growth_by, mean_over_time, within
from flowcontrol.analysis.panel import Window
from flowcontrol.scenario import Edge, Scenario

if TYPE_CHECKING:
    import pandas as pd

Subtask = tuple[str, int]
"""Stage and index."""

Why = Literal["no_event_time", "no_watermark", "no_probes", "no_records", "on_way", "ended"]
"""What keeps a watermark from a stage: its source has no event time, no watermark or no probes, it
has emitted nothing, the first one is on its way, or nothing does: it had ended by a sample."""

_PROBES_OF_A_FIRST = 2
"""So many intervals after its first record a source has had a watermark, or has ended."""


def is_relative(scenario: Scenario, stage: str) -> bool:
    """Return whether rows that reach a stage bring an event time of their own.

    Such a time has nothing to do with the clock of the run, so watermarks are compared with those
    of the sources.
    """
    return bool(scenario.timed_by(stage))


@dataclass(frozen=True)
class Hold:
    """An input of a subtask, from one sender."""

    edge: str  # Name of the edge
    stage: str  # The sender's
    subtask: int  # The sender's
    is_silent: bool  # The sender has sent no watermark, and is not idle
    lag_ms: float | None  # How far the sender's watermark lags, the mean; None if it is silent (ms)
    # How long records wait on the channel; None if nothing is taken off it (ms).
    wait_ms: float | None
    in_flight_records: float  # How many do, the mean (records)
    rate: float  # How many are taken off it (records/s)

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return asdict(self)

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The greater, the more it holds a watermark back."""
        wait_ms = math.inf if self.wait_ms is None else self.wait_ms
        return self.is_silent, (self.lag_ms or 0.0) + wait_ms, self.in_flight_records


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a run in a part of it."""

    frame: pd.DataFrame  # From :func:`flowcontrol.analysis.event_time.time_frame`
    # The tables ``stages`` and ``channels`` with ``interval_s``.
    samples: pd.DataFrame
    channels: pd.DataFrame
    scenario: Scenario  # What was run
    window: Window  # The part (s)

    @cached_property
    def lag_ms(self) -> dict[Subtask, float]:
        """Mean lag of each subtask that has a watermark and is not idle all the time, ms."""
        rows = within(self.frame, self.window)
        known = rows[rows["lag_ms"].notna() & ~rows["is_idle"]]
        return {
            (str(stage), int(str(subtask))): mean_over_time(part, "lag_ms")
            for (stage, subtask), part in known.groupby(["stage", "subtask"])
        }

    @cached_property
    def silent(self) -> frozenset[Subtask]:
        """Subtasks that have sent no watermark until the end of the part, and are not idle."""
        rows = self.frame[self.frame["t_s"] <= self.window[1]]
        parts = rows.groupby(["stage", "subtask"])
        has_none = parts["watermark_s"].count() == 0
        is_active = ~parts["is_idle"].last().astype(bool)
        found = has_none[has_none & is_active].index
        return frozenset((str(stage), int(subtask)) for stage, subtask in found)

    def furthest_behind(self, stage: str) -> int | None:
        """Return the subtask of a stage that others wait for the longest; None if for none."""
        silent = [subtask for name, subtask in self.silent if name == stage]
        if silent:
            return min(silent)
        lags = {subtask: ms for (name, subtask), ms in self.lag_ms.items() if name == stage}
        return max(lags, key=lambda subtask: lags[subtask], default=None)

    def holder(self, stage: str, subtask: int) -> Hold | None:
        """Return the input that holds a subtask back; None of a source, or if all are idle."""
        return max(self._holds(stage, subtask), key=lambda hold: hold.rank, default=None)

    def _holds(self, stage: str, subtask: int) -> Iterator[Hold]:
        """Yield the inputs of a subtask that it waits for."""
        inputs = [
            (edge, sender, messages, held)
            for edge in self.scenario.inputs(stage)
            for sender, messages, held in self._flows(edge, subtask)
        ]
        total = sum(messages for _, _, messages, _ in inputs)
        rate = self.rate((stage, subtask), "records_in")
        for edge, sender, messages, held in inputs:
            who = edge.sender, sender
            if who not in self.lag_ms and who not in self.silent:
                continue  # idle or at its end: nobody waits for it
            own_rate = rate * messages / total if total else 0.0
            wait_ms = 0.0 if not held else 1000.0 * held / own_rate if own_rate else None
            yield Hold(
                edge=edge.name,
                stage=edge.sender,
                subtask=sender,
                is_silent=who in self.silent,
                lag_ms=self.lag_ms.get(who),
                wait_ms=wait_ms,
                in_flight_records=held,
                rate=own_rate,
            )

    @cached_property
    def _rows_of_channels(self) -> dict[tuple[str, int], pd.DataFrame]:
        """Samples of channels, by edge and receiver."""
        parts = self.channels.groupby(["edge", "receiver"])
        return {(str(edge), int(str(receiver))): rows for (edge, receiver), rows in parts}

    def _flows(self, edge: Edge, receiver: int) -> Iterator[tuple[int, float, float]]:
        """Yield of each channel its sender, what was taken off it, and mean records in flight.

        What was taken off is in a unit that all edges into a task share. A chained edge has no
        channels, and nothing in flight.
        """
        rows = self._rows_of_channels.get((edge.name, receiver))
        if rows is None:
            if all(name != edge.name for name, _ in self._rows_of_channels):
                yield receiver, 0.0, 0.0
            return
        taken = growth_by(rows, ["sender"], ["consumed"], self.window)["consumed"]
        inside = within(rows, self.window)
        weighted = inside.assign(held=inside["in_flight_records"] * inside["interval_s"])
        sums = weighted.groupby("sender")[["held", "interval_s"]].sum()
        means = (sums["held"] / sums["interval_s"]).fillna(0.0)
        unit = 1 if self.scenario.system.counts_records else self._record_bytes(edge)
        for sender, messages in taken.items():
            yield int(str(sender)), float(messages) / unit, float(means.get(sender, 0.0))

    def _record_bytes(self, edge: Edge) -> int:
        return self.scenario.stage(edge.sender).record_bytes

    def rate(self, who: Subtask, counter: str) -> float:
        """Return what a subtask took up (``records_in``) or emitted in the part, records/s."""
        length = self.window[1] - self.window[0]
        grown = growth(self._samples_of(who), ["subtask"], counter, self.window)
        return grown / length if length > 0 else 0.0

    def _samples_of(self, who: Subtask) -> pd.DataFrame:
        is_own = (self.samples["stage"] == who[0]) & (self.samples["subtask"] == who[1])
        found: pd.DataFrame = self.samples[is_own]
        return found

    def waited_for(self, who: Subtask, group: str) -> Subtask | None:
        """Return whom a paused source waits for: the slowest of its group while it was paused.

        Returns the input that was last, and behind ``who``, for most of the paused time of the
        whole run; None: none was behind it, as when it is the slowest itself.
        """
        members = [
            stage.name
            for stage in self.scenario.sources
            if stage.watermark is not None
            and stage.watermark.alignment is not None
            and stage.watermark.alignment.group == group
        ]
        rows = self.frame
        is_own = (rows["stage"] == who[0]) & (rows["subtask"] == who[1])
        own = rows[is_own & (rows["paused_ms_per_s"] > 0)].set_index("t_s")
        known = rows["watermark_s"].notna() & ~rows["is_idle"]
        others = rows[rows["stage"].isin(members) & ~is_own & known & rows["t_s"].isin(own.index)]
        behind = others[others["watermark_s"] < others["t_s"].map(own["watermark_s"])]
        last = behind.sort_values("watermark_s", kind="stable").groupby("t_s").head(1)
        if last.empty:
            return None
        times = last["t_s"].map(own["paused_ms_per_s"] * own["interval_s"])
        paused = last.assign(paused_ms=times).groupby(["stage", "subtask"])["paused_ms"].sum()
        stage, subtask = paused.sort_values(ascending=False, kind="stable").index[0]
        return str(stage), int(subtask)

    def silent_stage(self) -> dict[str, Any] | None:
        """Return the first stage with inputs that no watermark has reached, and whom it waits for.

        Returns ``stage``; ``source`` and ``subtask``, from which none has come; ``why``
        (:data:`Why`). None: each has a watermark, or nobody waits for it.
        """
        stages = self.scenario.topological()
        if self.scenario.time_model == "spark":  # it has a watermark only where windows are
            stages = tuple(one for one in stages if one.window is not None)
        for stage in stages:
            worst = self.furthest_behind(stage.name)
            if worst is None or (stage.name, worst) not in self.silent:
                continue
            if self.scenario.inputs(stage.name):
                found = self._silent_source(stage.name, worst)
                if found["why"] != "ended":
                    return {"stage": stage.name} | found
        return None

    def _silent_source(self, stage: str, subtask: int) -> dict[str, Any]:
        found: Why = "on_way"
        while (hold := self.holder(stage, subtask)) is not None:
            stage, subtask = hold.stage, hold.subtask
            if not hold.is_silent:
                break
        else:
            found = self._why_silent(stage, subtask)
        return {"source": stage, "subtask": subtask, "why": found}

    def _why_silent(self, source: str, subtask: int) -> Why:
        own = self.scenario.stage(source)
        if own.event_time is None:
            return "no_event_time"
        if own.watermark is None:
            return "no_watermark"
        probes = self.scenario.options.watermark_interval_us or own.watermark.punctuated
        if not probes and self.scenario.time_model == "flink":
            return "no_probes"
        samples = self._samples_of((source, subtask))
        began = samples[samples["records_out"] > 0]["t_s"].min()  # NaN: it has not
        if math.isnan(began):
            return "no_records"
        waits_s = _PROBES_OF_A_FIRST * self.scenario.options.watermark_interval_us / 1e6
        is_probed = samples["backpressured_ms_per_s"].iloc[-1] == 0  # not in a record that waits
        emits = samples["records_out"].iloc[-2:].nunique() > 1
        is_over = self.scenario.time_model == "flink" and self.window[1] > began + waits_s
        return "ended" if is_over and is_probed and not emits else "on_way"
