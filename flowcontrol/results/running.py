"""A run, sample by sample: where the kernel stops so that jobs start and sources get commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from flowcontrol.arrays import pa
from flowcontrol.control.between import Between
from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.errors import RunError
from flowcontrol.kernel.jobs import JobRun, Timeline
from flowcontrol.kernel.loop import advance
from flowcontrol.kernel.requests import put_back
from flowcontrol.kernel.views import task_row
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed, read_replayed
from flowcontrol.layout.task_settings import has_delivery
from flowcontrol.memory import places as h
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.requests import NOTHING, Restored
from flowcontrol.memory.task_memory import used_of
from flowcontrol.records import COMMITS, DELIVERY, RESTARTS
from flowcontrol.results.requests import RequestTable
from flowcontrol.results.sample_tables import Tables
from flowcontrol.results.sampling import Samples, sampling_of
from flowcontrol.results.state_reader import StateReader
from flowcontrol.results.tables import TimeTable, checkpoint_tables, process_table
from flowcontrol.trace.round_state import RoundState

ENOUGH_EVENTS = 256
"""What readers see is worked off so many events at a time: one by one takes twice as long, as the
kernel empties the caches between them."""


class Running:
    """Everything that a run consists of, before its first round.

    - ``track``: follow the age of every record; a throttle that looks at ages has them followed in
      any case.
    - ``begins_us``: when the interval of checkpoints begins, microseconds.
    - ``own``: the tasks that run in its memory; by default all do.
    - ``restored``: by task, what its requests held in a checkpoint from which the job begins.
    - ``memory``: its tasks.
    - ``tables``: collects the samples.
    - ``timeline``: when jobs start and stop.
    - ``between``: what acts between rounds.
    - ``throttle``, ``coordination``, ``recovery``: of it what slows the sources, triggers
      checkpoints, fails and restarts.
    - ``delivery``: what the readers of the sinks see.
    - ``time``, ``requests``: collect the samples of event time, and of sinks with requests.
    - ``samples``: samples the tasks' backpressure.
    - ``used``: at each sample, what each task manager's processors had done so far; of a job that
      counts them.
    """

    def __init__(
        self,
        job: Job,
        replayed: Replayed,
        sizes: LogSizes,
        *,
        track: bool,
        begins_us: int = 0,
        own: Collection[int] | None = None,
        restored: Restored = NOTHING,
    ) -> None:
        self.job, self.rounds, self.used = job, job.rounds, list[list[int]]()
        self.memory = memory = fill(job, sizes, track=track, replayed=replayed, restored=restored)
        for task in restored:
            put_back(memory.head, task_row(memory.head, task))
        self.timeline, self._keys = Timeline(job, memory), replayed.keys
        self.between = between = Between(job, memory, begins_us, own)
        self.throttle, self.coordination = between.throttle, between.coordination
        self.recovery = between.recovery
        self.tables = Tables(job, memory, self.timeline.absent)
        hooks = [self.tables.counted.hold]
        self.time = TimeTable(job, memory) if job.scenario.has_stamps else None
        if self.time is not None:
            hooks.append(self.time.counted.hold)
        if self.recovery is not None:
            self.recovery.attempts.hooks += hooks
        has_requests = any(stage.requests for stage in job.scenario.stages)
        self.requests = RequestTable(job, memory) if has_requests else None
        self.delivery = DeliveryControl(job) if has_delivery(job) else None
        if self.delivery is not None:
            coordinator = None if self.coordination is None else self.coordination.control
            failures = None if self.recovery is None else self.recovery.control
            self.delivery.attach(coordinator, failures)
            if self.coordination is not None:
                self.coordination.delivery = self.delivery
        sampling, absent = sampling_of(job), self.timeline.absent
        self.samples = None if sampling is None else Samples(job, memory, absent, sampling)

    @property
    def control_messages(self) -> int:
        """Messages so far that carried no data: credit, grants, what a throttle says."""
        said = 0 if self.throttle is None else self.throttle.controller.messages
        return self.memory.head.grants + said

    def run(
        self, progress: Callable[[int, int], None], is_over: Callable[[float], bool] | None = None
    ) -> int:
        """Run all rounds; return the flags of a log that was full, or 0.

        - ``progress``: called at each sample with the rounds done and the records that reached the
          sinks.
        - ``is_over``: called behind it with the time of the sample, s: whether the run ends there.
        """
        done, counts_processors = 0, self.job.scenario.counts_processors
        for t_s, _, last in self.job.samples(self.rounds):
            at = done
            while at <= last:
                self.timeline.act(at)
                at = min(last + 1, self.timeline.next_round(at + 1))
                flags = self.advance_to(at)
                if flags:
                    return flags
            self.tables.add(t_s, last + 1 - done)
            if self.time is not None:
                self.time.add(t_s, last + 1)
            if self.requests is not None:
                self.requests.add(t_s, last + 1)
            if counts_processors:
                self.used.append(used_of(self.memory))
            if self.delivery is not None:
                taken = self.memory.tasks["taken"][self.delivery.tasks].tolist()
                self.delivery.sample(t_s, last + 1, taken)
            done = last + 1
            progress(done, self.memory.head.arrived)
            if is_over is not None and is_over(t_s):
                break
        return 0

    def grown(self, sizes: LogSizes, flags: int) -> LogSizes:
        """Return the larger logs with which the run has to begin again, as some were full.

        Raises RunError if one of them may not be larger.
        """
        reached_s = self.memory.head.round * self.job.round_us / 1e6
        return sizes.grown(flags, reached_s, self.job.scenario.duration_us / 1e6)

    def result_tables(self) -> dict[str, pa.Table]:
        """Return the result tables, when the last round is done."""
        tables, rounds = self.tables.finish(), self.memory.head.round
        if self.coordination is not None:
            self.coordination.finish(rounds)
            tables |= checkpoint_tables(self.job, self.coordination.control.coordinator)
        if self.recovery is not None:
            tables["restarts"] = RESTARTS.of_rows(self.recovery.control.rows())
        if self.delivery is not None:
            self.delivery.advance(rounds)
            tables["delivery"] = DELIVERY.of_rows(self.delivery.rows)
            if any(stage.commit for stage in self.job.scenario.stages):
                tables["commits"] = COMMITS.of_rows(self.delivery.commits.rows)
        if self.time is not None:
            tables["time"] = self.time.table()
        if self.requests is not None:
            tables["requests"] = self.requests.table()
        if self.samples is not None:
            self.samples.take()
            tables["samples"] = self.samples.sampling.table()
        if self.job.scenario.has_processes:
            tables["processes"] = process_table(self.job, self.rounds, self.used)
        tables |= self.tables.results.tables(self.job, self._keys)
        return tables

    @property
    def failed_job(self) -> tuple[dict[str, Any], ...]:
        """What became of the only job if it failed for good; else nothing."""
        return () if self.recovery is None else self.recovery.control.failed_job()

    def finish(self) -> list[JobRun]:
        """Say what became of the jobs when the last round is done.

        Raises RunError if none of them could run.
        """
        self.timeline.finish()
        found = self.timeline.runs
        if found and not any(run.has_run for run in found):
            texts = [f"{run.span.name}: {run.message}" for run in found]
            raise RunError("no job could run: " + "; ".join(texts))
        return found

    def _begin(self) -> int:
        """Have all act that act between rounds; return the round before which they do again."""
        if self.samples is not None:
            self.samples.take()
        due = self.between.before_round()
        own, coordination = self.delivery, self.coordination
        acted = coordination is not None and coordination.acted == self.memory.head.round
        if own is not None and acted and own.waiting >= ENOUGH_EVENTS:
            own.advance(self.memory.head.round)
        return due if self.samples is None else min(due, self.samples.begin())

    def drain(self) -> None:
        """Empty the logs, keeping what they say."""
        self.tables.drain()
        if self.recovery is not None:
            self.recovery.attempts.logs.drain()

    def advance_to(self, end: int) -> int:
        """Run the rounds before ``end``; return the flags of a log that was full, or 0.

        Raises RunError if the rules were broken.
        """
        head = self.memory.head
        while head.round < end:
            looks_at = end + 1 if self.throttle is None else self.throttle.next_end()
            stop = min(end, self._begin())
            flags = h.FLAG_DRAIN
            while flags == h.FLAG_DRAIN:  # on to the same round, where all is accounted for
                flags = int(advance(self.memory.cells, min(stop, looks_at)))
                if flags == h.FLAG_DRAIN:
                    self.drain()
            if flags & h.FLAG_PROTOCOL:
                raise RunError("a message came without a buffer to put it in: rules were broken")
            if flags & h.FLAG_PARTS:
                raise RunError("the compiled kernel lacks a part that this job needs")
            head.flags = flags & ~(h.FLAG_EMPTY | h.FLAG_REPORTS)
            if head.flags != 0:
                return head.flags
            if self.coordination is not None and flags & h.FLAG_REPORTS:
                self.coordination.hear()
                if 2 * head.ages_count > head.ages_most:
                    self.drain()
                flags &= ~h.FLAG_REPORTS
            if self.throttle is not None and (flags != 0 or head.round >= looks_at):
                self.throttle.look()
        return 0


def step(job: Job, replayed: Replayed | None = None, first: int = 0) -> Iterator[RoundState]:
    """Run a job that is laid out; yield its state after each round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    replayed : Replayed, optional
        What its sources replay; by default it is read.
    first : int, default 0
        The first round whose state is yielded; those before it are run in one go.

    Returns
    -------
    iterator of RoundState
        Runs a round each time it is asked for one.

    Raises
    ------
    RunError
        If the rows that a source is to replay cannot be read; the iterator raises what
        :func:`flowcontrol.virtual.simulate` does while it runs.

    Notes
    -----
    The kernel is the one that runs whole jobs, stopped after every round. When a log of it is
    full, the rounds so far are run again with larger ones, which is exact.
    """
    return _step(job, replayed or read_replayed(job), first)


def _step(job: Job, replayed: Replayed, first: int) -> Iterator[RoundState]:
    sizes, done = LogSizes.first(job, replayed.keys), first
    while done < job.rounds:
        running = Running(job, replayed, sizes, track=False)
        reader = StateReader(job, running.memory, running.between, running.tables.results)
        at = 0
        while at < job.rounds:
            running.timeline.act(at)
            end = at + 1
            if end < done:
                end = min(done - 1, running.timeline.next_round(end))
            flags = running.advance_to(end)
            if flags:
                sizes = running.grown(sizes, flags)
                break
            at = end
            if at > done:
                yield reader.read()
                done = at
            elif at == done:
                reader.read()  # what the next round did counts from here
    running.finish()
