"""Jobs that start and stop during a run: their tasks woken, their buffers shared out anew.

Between two calls of the kernel the objects of the protocol work on its memory: a pool's row is a
view of it, so a redistribution is that of :mod:`flowcontrol.protocol.network.pools` to the letter.

What a pool gives back another one may take in the same round, so the order of tasks within a
round matters here: it is that of the scenario.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from flowcontrol.kernel.views import gate_row, global_pool, partition_row, sleep, task_row, wake
from flowcontrol.layout.buffers import Allocation, Holding
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import demands_by_job
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.parts import JOBS, REQUESTS, TCP, WIRES
from flowcontrol.memory.places import Ints, KernelMemory
from flowcontrol.protocol.network.pool_rules import fetch_segment
from flowcontrol.scenario import JobSpan
from flowcontrol.state import rows as w
from flowcontrol.state.declared import assign, width
from flowcontrol.state.network import GlobalPool


@dataclass
class JobRun:
    """What became of a job."""

    span: JobSpan  # Its name, and when it was to run
    # ``due``, ``starting`` (waiting for segments that others still use), ``running``, and in the
    # end ``finished``, ``stopped`` or ``failed``.
    state: str = "due"
    message: str = ""  # Why it failed
    has_run: bool = False  # Whether its tasks ever ran

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        stop_us = self.span.stop_us
        return {
            "name": self.span.name,
            "start_at_s": self.span.start_us / 1e6,
            "stop_at_s": None if stop_us is None else stop_us / 1e6,
            "state": self.state,
            "message": self.message or None,
        }


class Timeline:
    """Starts and stops the jobs of a run, between two rounds.

    A moment within a round counts from the next round on. Stops come before starts. A task that
    ends gives its segments back at once; a job that starts waits, at most
    ``buffers-request-timeout``, for exclusive segments that other pools must give back.

    - ``memory``: of its run, before the first round.
    - ``runs``: in the order of the scenario; one that has no ``jobs`` has none.
    - ``absent``: stages whose job does not run at present.
    - ``allocation``: who holds which segments.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._job, self._memory, scenario = job, memory, job.scenario
        self.runs = [JobRun(span) for span in scenario.jobs]
        self.absent: set[str] = set()
        self.allocation = Allocation(
            scenario.options,
            scenario.cluster.task_managers,
            max_overdraft=scenario.options.max_overdraft_buffers,
        )
        self._begun = list[tuple[str, bool]]()
        """Jobs that have asked for their memory (True), or given it back, in order."""
        self._is_shared = scenario.shares_memory
        if not self._is_shared:
            for run in self.runs:
                run.state, run.has_run = "running", True
            return
        self._demands = demands_by_job(scenario)
        self._tasks = {run.span.name: self._tasks_of(run.span) for run in self.runs}
        self._bind_networks()
        self._exclusive = memory.ins["announced"].copy()
        memory.ins["announced"] = 0
        memory.outs["announced"] = 0
        for block in (memory.gates, memory.partitions):
            block["pool"] = 0
            block["pool"]["is_destroyed"] = 1
        for run in self.runs:
            self._put_to_sleep(run)

    def next_round(self, now: int) -> int:
        """Return the first round from ``now`` on before which there is something to do."""
        found = [self._job.rounds]
        for run in self.runs if self._is_shared else ():
            if run.state == "starting":
                found.append(now)
            elif run.state == "due":
                found.append(self._round(run.span.start_us))
            if run.state in {"due", "starting", "running"} and run.span.stop_us is not None:
                found.append(self._round(run.span.stop_us))
        return max(now, min(found))

    def act(self, now: int) -> None:
        """Stop and start what is to be before round ``now``."""
        if not self._is_shared:
            return
        before = [run.state for run in self.runs]
        for run in self.runs:
            if run.state == "running" and self._is_due(run.span.stop_us, now):
                self._stop(run, "stopped", "")
            elif run.state == "starting" and self._is_due(run.span.stop_us, now):
                self._stop(run, "stopped", "cancelled while it waited for network buffers")
        for run in self.runs:
            if run.state == "due" and self._is_due(run.span.start_us, now):
                self._start(run)
            if run.state == "starting":
                self._try_to_run(run, now)
        if before != [run.state for run in self.runs]:
            for run in self.runs:  # sizes have changed
                if run.state == "running":
                    self._wake(run, now)

    def state(self) -> dict[str, Any]:
        """Return what the rounds to come need, as JSON takes it; the memory is not part of it."""
        held = self.allocation.held
        return {
            "begun": self._begun.copy(),
            "runs": [[run.state, run.message, run.has_run] for run in self.runs],
            "held": {
                name: [[one.promised, one.taken] for one in own] for name, own in held.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, before the memory is put back."""
        for name, begins in state["begun"]:
            self._begun.append((name, begins))
            if begins:
                self.allocation.begin(name, self._demands[name], self._bind)
            else:
                self.allocation.end(name)
        for name, own in state["held"].items():
            for one, counts in zip(self.allocation.held[name], own, strict=True):
                one.promised, one.taken = counts
        for run, found in zip(self.runs, state["runs"], strict=True):
            run.state, run.message, run.has_run = found
            if run.state == "running":
                self.absent -= set(run.span.stages)

    def finish(self) -> None:
        """Say what became of the jobs when the run has ended."""
        for run in self.runs:
            if run.state == "running":
                run.state = "finished"
            elif run.state == "due":
                run.state, run.message = "failed", "it was to start within the last round"
            elif run.state == "starting":
                missing = self.allocation.fetch(run.span.name)
                text = f"it still waited for {missing} network buffers when the run ended"
                run.state, run.message = "failed", text

    def _round(self, us: int) -> int:
        return -(-us // self._job.round_us)

    def _is_due(self, us: int | None, now: int) -> bool:
        return us is not None and self._round(us) <= now

    def _tasks_of(self, span: JobSpan) -> Ints:
        """Numbers of the tasks of a job."""
        first = self._memory.places.tasks
        found = [
            first[plan.name] + np.arange(plan.stage.parallelism)
            for plan in self._job.stages
            if plan.name in span.stages
        ]
        return np.concatenate(found)

    def _bind_networks(self) -> None:
        """Let the global pools' rows be those of the memory."""
        head = self._memory.head
        for manager, network in enumerate(self.allocation.networks):
            here = global_pool(head, head.shared_at + manager * width(GlobalPool))
            assign(here, network.state)
            network.state = here

    def _bind(self, holding: Holding) -> None:
        """Let a local pool's row be that of the memory, and its global pool that of all."""
        demand, memory = holding.demand, self._memory
        key = (demand.edge, demand.subtask)
        if demand.is_gate:
            owner: Any = gate_row(memory.head, memory.places.gates[key])
        else:
            owner = partition_row(memory.head, memory.places.partitions[key])
        assign(owner.pool, holding.pool.state)
        holding.pool.state = owner.pool
        owner.global_at = memory.head.shared_at + demand.manager * width(GlobalPool)
        cast(Any, memory.head).found.clear()  # what was found has the global pool of before

    def _start(self, run: JobRun) -> None:
        name = run.span.name
        self._begun.append((name, True))
        text = self.allocation.begin(name, self._demands[name], self._bind)
        run.state, run.message = ("failed", text) if text else ("starting", "")

    def _try_to_run(self, run: JobRun, now: int) -> None:
        """Have the tasks of a job run if it has its exclusive segments; fail it if time is up."""
        if self.allocation.fetch(run.span.name) == 0:
            run.state, run.has_run = "running", True
            self.absent -= set(run.span.stages)
            memory, tasks = self._memory, self._tasks[run.span.name]
            memory.tasks["status"][tasks] = f.IDLE
            own = np.isin(memory.outs["sender"], tasks)
            into = memory.outs["input"][own]
            memory.ins["announced"][into] = self._exclusive[into]
            memory.outs["announced"][own] = self._exclusive[into]
            return
        waited_us = (now - self._round(run.span.start_us)) * self._job.round_us
        if waited_us >= self._job.scenario.options.buffers_request_timeout_us:
            self._stop(run, "failed", self.allocation.timeout_text())

    def _stop(self, run: JobRun, state: str, message: str) -> None:
        """Take everything from a job; what it has in flight is gone."""
        run.state, run.message = state, message
        self._begun.append((run.span.name, False))
        self.allocation.end(run.span.name)
        self._put_to_sleep(run)
        memory, tasks = self._memory, self._tasks[run.span.name]
        for row in memory.tasks[memory.tasks["kind"] == f.CONNECTION]:
            first, length = int(row["union"]), w.FIFO_SLOTS + int(row["gates"])
            waiting = memory.values(first, length)
            left = [c for c in waiting if memory.outs["sender"][c] not in tasks]
            queue: Any = memory.cells[first : first + length]
            w.refill(queue, left)

    def _put_to_sleep(self, run: JobRun) -> None:
        tasks = self._tasks[run.span.name]
        for number in tasks:
            sleep(self._memory.head, number)
        self._memory.tasks["status"][tasks] = f.ABSENT
        self.absent |= set(run.span.stages)

    def _wake(self, run: JobRun, now: int) -> None:
        for number in self._tasks[run.span.name]:
            wake(self._memory.head, number, now)


@part_of(JOBS | WIRES | TCP | REQUESTS)
def in_order(m: KernelMemory, active: w.Row, count: int) -> None:
    """Sort the first ``count`` tasks of a list; most of them stand in order already."""
    for i in range(1, count):
        task = active[i]
        j = i - 1
        while j >= 0 and active[j] > task:
            active[j + 1] = active[j]
            j -= 1
        active[j + 1] = task


@part_of(JOBS)
def serve_waiting(m: KernelMemory) -> None:
    """Let pools without a free segment fetch one that others gave back in this round.

    ``LocalBufferPool.onGlobalPoolAvailable``: partitions first, then gates. A partition that is
    available again has its task looked at in the next round.
    """
    for i in range(m.partitions):
        p = partition_row(m, i)
        got = fetch_segment(p.pool, global_pool(m, p.global_at))
        if got == 1 and task_row(m, p.task).status != f.ABSENT:
            wake(m, p.task, m.now + 1)
    for i in range(m.gates):
        g = gate_row(m, i)
        fetch_segment(g.pool, global_pool(m, g.global_at))
