"""The controller of a job's throttle: its view of the kernel's memory, and its commands."""

from __future__ import annotations

import numpy as np

from flowcontrol.control.event_time import Batches
from flowcontrol.kernel.views import source_log, throttled_source
from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.memory.memory import Memory
from flowcontrol.protocol.tasks.reading import unread
from flowcontrol.systems.throttles import controller as c
from flowcontrol.systems.throttles.controller import Controller, make_controller
from flowcontrol.systems.throttles.throttled_source import ThrottledSource


def controller_of(job: Job) -> Controller | None:
    """Return the controller of a job's throttle, at rest; None if it has none."""
    system = job.scenario.system
    return make_controller(
        system.throttle,
        system.throttle_values,
        round_us=job.round_us,
        spouts_above=job.sources_above(),
    )


class ThrottleControl:
    """Shows a controller the job at the ends of rounds, and hands its commands to the sources.

    - ``memory``: of its run, before the first round.
    - ``batches``: batches of Spark's windows, if those of the throttle are theirs.
    """

    def __init__(
        self, job: Job, memory: Memory, controller: c.Controller, batches: Batches | None = None
    ) -> None:
        self.controller, self._batches = controller, batches
        self._job, self._memory = job, memory
        self._sources = [(plan, i) for plan, i in job.subtasks if plan.is_source]
        self._tasks = [(plan, i) for plan, i in job.subtasks if not plan.is_source]
        self._tell(controller.first([self._source(plan, i, 0) for plan, i in self._sources]))

    def next_end(self) -> int:
        """Return how many rounds are done when the controller is to look next, at least one more.

        The end of the first round that ends at or after the time of its look.
        """
        rounds = -(-self.controller.next_look_us() // self._job.round_us)
        return max(self._memory.head.round + 1, rounds)

    def look(self) -> None:
        """Show the controller the rounds that are done, and pass its commands on."""
        head = self._memory.head
        now_us = head.round * self._job.round_us
        is_empty = bool(head.is_empty)
        if self._batches is not None:
            is_empty = self._batches.are_answered(is_empty=is_empty)
        seen = c.JobObservation(
            now_us,
            tuple(self._source(plan, i, now_us) for plan, i in self._sources),
            tuple(self._task(plan, i, now_us) for plan, i in self._tasks),
            is_empty,
            head.arrived,
            self._oldest_us(),
        )
        self._tell(self.controller.look(seen))
        if self._batches is not None and self.controller.found_nothing:
            self._batches.end()

    def _tell(self, commands: list[c.Command]) -> None:
        for (plan, index), command in zip(self._sources, commands, strict=True):
            state = self._state(plan, index)
            state.is_stopped = command.is_stopped
            state.gap_ns = command.gap_ns
            state.admitted = command.admitted
        self._memory.head.is_watched = int(self.controller.wants_empty)

    def _row(self, plan: JobVertex, index: int) -> np.ndarray:
        return self._memory.tasks[self._memory.places.tasks[plan.name] + index]

    def _state(self, plan: JobVertex, index: int) -> ThrottledSource:
        return throttled_source(self._memory.cells, int(self._row(plan, index)["throttle"]))

    def _source(self, plan: JobVertex, index: int, now_us: int) -> c.SourceObservation:
        task, rates = self._row(plan, index), plan.rates(index)
        log = source_log(self._memory.cells, int(task["log"])) if task["log"] > 0 else None
        return c.SourceObservation(
            plan.name,
            index,
            int(task["taken"]),
            0 if log is None else unread(log),
            self._state(plan, index).offered if log is None else log.end,
            0.0 if rates is None else float(rates.rate_at(now_us)),
        )

    def _task(self, plan: JobVertex, index: int, now_us: int) -> c.TaskObservation:
        task, rates, nbytes = self._row(plan, index), plan.rates(index), 0
        gates = self._memory.gates[int(task["first_gate"]) :][: int(task["gates"])]
        for gate in gates:
            first = int(gate["first_channel"])
            rows = self._memory.ins[first : first + int(gate["channels"])]
            sent = self._memory.outs[rows["out"]]["written"]
            queued = sent - rows["processed"]
            nbytes += int(queued.sum() * gate["record_bytes"])
        rate = 0.0 if rates is None else float(rates.rate_at(now_us))
        return c.TaskObservation(
            plan.name,
            index,
            int(task["queued"]),
            nbytes,
            int(task["taken"]),
            1000 / rate if rate > 0 else 0.0,
        )

    def _oldest_us(self) -> int:
        """End of the round in which the oldest record on any channel was emitted; -1: none."""
        heads = self._memory.outs["runs"]["head"]
        heads = heads[heads > 0] - 1
        if len(heads) == 0:
            return -1
        return int(self._memory.runs["round"][heads].min() + 1) * self._job.round_us
