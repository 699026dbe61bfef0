"""One epoch of a run: the job from its start until the controller has stopped it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_ROWS
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.requests import Restored
from flowcontrol.records import CHECKPOINT_TASKS, CHECKPOINTS, REQUESTS, RESTARTS, RESULTS, Table
from flowcontrol.results.requests import COUNTED
from flowcontrol.results.running import Running
from flowcontrol.scaling.runs.controllers import Controller, Decision, Measured
from flowcontrol.scenario import Savepoint
from flowcontrol.state.requests import Entry

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


COMPLETED = "completed"


@dataclass(frozen=True)
class Span:
    """When an epoch is, by the clock of the whole run, microseconds."""

    origin_us: int  # Time 0 of its scenario
    # When it begins: at a sample, up to which the tables are those of the epoch before.
    begins_us: int
    running_us: int  # When its job runs


Held = dict[str, list[tuple[list[Entry], int]]]
"""By stage and subtask, what requests held, and records stored that are sent again."""


@dataclass(frozen=True)
class Ended:
    """What is left of an epoch."""

    job: Job  # What ran
    tables: dict[str, pa.Table]  # By the epoch's own clock
    # Rounds that were run, records that reached the sinks, and messages.
    rounds: int
    arrived: int
    transfers: int
    control_messages: int
    decision: Decision | None  # Why it ended; None: with the run
    # When that was decided, and when the job had stopped; by the clock of the run.
    decided_us: int
    stopped_us: int
    # By source: records that each subtask had had from its log, or emitted.
    read: dict[str, list[int]]
    restored: dict[str, list[int]]  # The same where the next epoch goes on
    # In the checkpoint from which the next epoch goes on; emitted in rounds of this epoch.
    requests: Held
    in_flight: int  # Records that were on their way as it ended, and are lost


def run_epoch(
    job: Job,
    controller: Controller,
    span: Span,
    progress: Callable[[int, int], None],
    restored: Restored,
    *,
    track: bool,
) -> tuple[Ended, Controller]:
    """Run an epoch.

    - ``job``: its scenario, laid out, with checkpoints or at least a savepoint.
    - ``restored``: by task, what its requests hold at first.
    - ``progress``: called at each sample with the rounds of the epoch and the records at its sinks.

    Raises RunError if the run holds more in flight than its logs may.
    """
    sizes = LogSizes.first(job)
    while True:
        attempt = _Attempt(job, deepcopy(controller), span, sizes, restored, track=track)
        flags = attempt.running.run(progress, attempt.is_over)
        if not flags:
            return attempt.ended(), attempt.controller
        sizes = attempt.running.grown(sizes, flags)


class _Attempt:
    """A try at an epoch: with logs of some sizes."""

    def __init__(
        self,
        job: Job,
        controller: Controller,
        span: Span,
        sizes: LogSizes,
        restored: Restored,
        *,
        track: bool,
    ) -> None:
        begins_us = span.running_us - span.origin_us
        self.running = Running(
            job, NO_ROWS, sizes, track=track, begins_us=begins_us, restored=restored
        )
        self.controller, self._span, self._job = controller, span, job
        self._rewinds = job.scenario.options.checkpoint_interval_us is not None
        if not self._rewinds and self.running.coordination is not None:
            self.running.coordination.ask(())
        self._measured, self._since_s = Measured(), 0.0
        self._decision: Decision | None = None
        self._decided_us = self._stopped_us = 0
        self._savepoint, self._is_done = -1, False

    # ------------------------------------------------------------------ while it runs

    def is_over(self, local_s: float) -> bool:
        """Show the controller a sample; tell whether the epoch ends with it."""
        t_s = local_s + self._span.origin_us / 1e6
        since_s, self._since_s = local_s - self._since_s, local_s
        if t_s < self._span.running_us / 1e6 - 1e-9:
            return False
        self._measured.add(t_s, since_s, self.running.tables.latest())
        if self._decision is not None:
            return self._is_stopped()
        if round(local_s * 1e6) >= self._job.scenario.duration_us or not self.controller.is_due(
            t_s
        ):
            return False
        self._decision = self.controller.look(t_s, self._measured)
        if self._decision is None:
            return False
        self._decided_us = self._stopped_us = round(t_s * 1e6)
        if self._rewinds:
            self._is_done = True
            return True
        self._stop_with_savepoint()
        return False

    def _stop_with_savepoint(self) -> None:
        own = self.running.coordination
        assert own is not None
        self._savepoint = own.control.coordinator.next_id
        now_us = self.running.memory.head.round * self._job.round_us
        own.ask((Savepoint(at_s=Fraction(now_us, 1_000_000), stop=True),))

    def _is_stopped(self) -> bool:
        """Tell whether the savepoint is there and all tasks are done; forget it if it failed."""
        own = self.running.coordination
        assert own is not None
        coordinator = own.control.coordinator
        if self._savepoint not in coordinator.ids:
            return False
        found = coordinator.statistics(self._savepoint)
        if found.status not in {COMPLETED, "in_progress"}:
            self._decision = None
            return False
        if found.status != COMPLETED or not self.running.memory.tasks["is_finished"].all():
            return False
        self._stopped_us = self._span.origin_us + int(found.ended or 0)
        self._is_done = True
        return True

    # ------------------------------------------------------------------ when it is over

    def ended(self) -> Ended:
        """Return what is left of it."""
        running, job = self.running, self._job
        tables = running.result_tables()
        coordination, recovery = running.coordination, running.recovery
        assert coordination is not None and recovery is not None
        attempts, latest = recovery.attempts, coordination.control.coordinator.latest_completed
        restores = latest if self._rewinds else self._savepoint
        if restores > 0:
            attempts.harvest(restores)
        read, restored = dict[str, list[int]](), dict[str, list[int]]()
        for plan in job.stages:
            tasks = job.tasks[plan.name]
            if plan.is_source:
                read[plan.name] = [attempts.source(task)[0] for task in tasks]
                restored[plan.name] = (
                    [attempts.position(task, latest) if latest > 0 else 0 for task in tasks]
                    if self._rewinds
                    else read[plan.name]
                )
        requests = {
            plan.name: [attempts.requests(task, restores) for task in job.tasks[plan.name]]
            for plan in job.stages
            if plan.stage.requests is not None
        }
        head = running.memory.head
        return Ended(
            job,
            tables,
            int(head.round),
            int(head.arrived),
            int(head.transfers),
            running.control_messages,
            self._decision if self._is_done else None,
            self._decided_us,
            self._stopped_us,
            read,
            restored,
            requests,
            attempts.in_flight(),
        )


# --- One set of tables of all epochs of a run.
#
# Rows of an epoch are moved to the clock of the whole run, and begin where those of the epoch
# before end. A subtask's counters go on over a restart, as they do over one after a failure: a
# subtask that is there again counts on from where it was. Those of a channel go on from the largest
# of them, so that what was in flight does not stay so; its levels are those of the new channel.


_SHARES: Final = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
_COUNTERS: Final = {
    "stages": (["stage", "subtask"], ["records_in", "records_out"], False),
    "channels": (
        ["edge", "sender", "receiver"],
        ["written", "released", "announced", "sent", "consumed"],
        True,
    ),
    REQUESTS.name: (["stage", "subtask"], [*COUNTED, "records_replayed"], False),
}
"""By table: who counts, what, and whether all go on from the largest."""

_TIMES: Final = {
    CHECKPOINTS.name: ("triggered_s", "ended_s"),
    CHECKPOINT_TASKS.name: ("acknowledged_s",),
    RESTARTS.name: ("failed_s", "detected_s", "restarted_s", "running_s", "caught_up_s"),
}


def joined_tables(parts: Sequence[tuple[Span, Ended]], *, checkpoints: bool) -> dict[str, pa.Table]:
    """Return the tables of a run.

    - ``parts``: its epochs, in order.
    - ``checkpoints``: whether it checkpoints, and has tables of that.
    """
    samples = dict(RESULTS)
    if REQUESTS.name in parts[0][1].tables:
        samples[REQUESTS.name] = REQUESTS
    found = {name: _samples(table, parts) for name, table in samples.items()}
    if checkpoints:
        for name in _TIMES:
            found[name] = _events(name, parts)
    return found


def _samples(table: Table, parts: Sequence[tuple[Span, Ended]]) -> pa.Table:
    """Return a table with a row a sample of the whole run."""
    import pandas as pd
    import pyarrow as pa

    name, frames = table.name, list[pd.DataFrame]()
    last: pd.DataFrame | None = None
    held: Held = {}
    for span, ended in parts:
        frame = ended.tables[name].to_pandas()
        frame["t_s"] = _rounded(frame["t_s"] + span.origin_us / 1e6)
        frame = frame[frame["t_s"] > span.begins_us / 1e6 + 1e-9].copy()
        if name == "stages":
            _stand_still(frame, span)
        if name in _COUNTERS:
            if name == REQUESTS.name and last is not None:
                _count_replayed(last, frame, held)
            last = _count_on(frame, last, *_COUNTERS[name])
        frames.append(frame)
        held = ended.requests
    whole = pd.concat(frames, ignore_index=True)
    return pa.Table.from_pandas(whole, table.arrow_schema(), preserve_index=False)


def _stand_still(frame: pd.DataFrame, span: Span) -> None:
    """Take the time before a job runs out of what its subtasks do: they are not there yet."""
    times = np.unique(frame["t_s"].to_numpy())
    before = np.concatenate([[span.begins_us / 1e6], times[:-1]])
    running_s = span.running_us / 1e6
    for at, since in zip(times.tolist(), before.tolist(), strict=True):
        gone = max(0.0, min(at, running_s) - since)
        if gone <= 1e-9:
            continue
        rows = frame["t_s"] == at
        left = np.full(int(rows.sum()), gone / (at - since) * 1000)
        # a source that waits for its start is busy if records wait for it, else idle
        waits = frame.loc[rows, "lag_records"].to_numpy() > 0
        for name in ("busy_ms_per_s", "idle_ms_per_s", "busy_ms_per_s"):
            own = frame.loc[rows, name].to_numpy()
            taken = np.where(waits | (name == "idle_ms_per_s"), np.minimum(own, left), 0.0)
            frame.loc[rows, name] = own - taken
            left = left - taken
            waits = np.ones_like(waits) if name == "idle_ms_per_s" else waits


def _count_replayed(last: pd.DataFrame, frame: pd.DataFrame, held: Held) -> None:
    """Count what is sent again at a subtask that goes on with what sent it."""
    widths = frame.groupby("stage")["subtask"].nunique()
    for stage, states in held.items():
        for subtask, (_, replayed) in enumerate(states):
            place = stage, min(subtask, subtask * widths[stage] // len(states))
            last.loc[place, "records_replayed"] = last["records_replayed"].get(place, 0) + replayed


def _count_on(
    frame: pd.DataFrame,
    last: pd.DataFrame | None,
    owner: list[str],
    columns: list[str],
    as_one: bool,
) -> pd.DataFrame:
    """Have counters go on; return the last of each."""
    import pandas as pd

    if last is not None:
        base = last.copy()
        if as_one:
            for column in columns:
                base[column] = last[columns].max(axis=1)
        keys = pd.MultiIndex.from_frame(frame[owner])
        more = base.reindex(keys, fill_value=0)
        for column in columns:
            frame[column] += more[column].to_numpy()
    now = frame.groupby(owner)[columns].last()
    return now if last is None else now.combine_first(last).astype("int64")


def _events(name: str, parts: Sequence[tuple[Span, Ended]]) -> pa.Table:
    """Return a table of checkpoints or restarts of the whole run, their numbers going on."""
    import pyarrow as pa

    found, first = list[Any](), 0
    for span, ended in parts:
        table = ended.tables[name]
        rows = table.to_pylist()
        for row in rows:
            for key in _TIMES[name]:
                if row[key] is not None:
                    row[key] = round(row[key] + span.origin_us / 1e6, 9)
            if row["checkpoint_id"] is not None and row["checkpoint_id"] > 0:
                row["checkpoint_id"] += first
        found.append(pa.Table.from_pylist(rows, table.schema))
        ids = ended.tables[CHECKPOINTS.name]["checkpoint_id"].to_pylist()
        first += max(ids, default=0)
    return pa.concat_tables(found)


def _rounded(times: pd.Series[float]) -> pd.Series[float]:
    """Return times without the error of a sum of doubles: samples are whole microseconds."""
    return times.round(6)
