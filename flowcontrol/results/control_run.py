"""The messages of the control plane of a run, played beside its tables.

The rules say who calls whom; the tables ``checkpoints``, ``checkpoint_tasks`` and ``restarts`` say
when. Calls of both clocks are equal where their tables are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flowcontrol.arrays import pa
from flowcontrol.layout.fault_tolerance import Failover
from flowcontrol.layout.graph import start_us
from flowcontrol.layout.job import Job
from flowcontrol.protocol.control.calls import (
    JOB_ENDS,
    Call,
    ControlTask,
    JobStatus,
    TaskStatus,
    endpoint_of,
)
from flowcontrol.protocol.control.endpoint import Heartbeats
from flowcontrol.protocol.control.plane import ControlPlane
from flowcontrol.protocol.control.resource_manager import CHECK_DELAY
from flowcontrol.records import CONTROL_MESSAGES
from flowcontrol.results.run import Run
from flowcontrol.scenario.fault_tolerance import Failure
from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.operators import place
from flowcontrol.trace.message_table import Window

MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ControlMessage:
    """A call from one endpoint to another: a row of the table ``control_messages``."""

    t_s: float  # When it is made, seconds
    # Endpoints: ``client``, ``Dispatcher``, ``ResourceManager``, ``JobMaster``, ``TaskExecutor 0``
    # and so on.
    source: str
    target: str
    name: str  # What is called, as Flink calls it
    bytes: int  # Size of the serialised call
    # Token of the target's leader, which has to be its own; of a call to a task executor, which is
    # not fenced, the leader id of the caller.
    fencing_token: str | None = None


def control_messages_of(log: Iterable[tuple[int, Call]]) -> list[ControlMessage]:
    """Return calls as messages, in their order.

    ``log``: when each was made, microseconds, and what it is.
    """
    return [
        ControlMessage(
            us / MICROSECONDS, call.source, call.target, str(call.name), call.nbytes, call.token
        )
        for us, call in log
    ]


Rows = list[dict[str, Any]]

Due = tuple[int, int, Callable[[], None]]
"""When something happens, microseconds, behind how much else of that moment, and what."""

FOLLOWED = ("checkpoints", "checkpoint_tasks", "restarts")
"""Tables that say when."""


def has_control_plane(job: Job) -> bool:
    """Tell whether a job's control plane is known: one job, of Flink."""
    return not (job.scenario.jobs or job.scenario.system.counts_records)


def control_tasks_of(job: Job) -> list[ControlTask]:
    """Return the subtasks of a job as its control plane sees them, in the order of the job.

    Operators are where their slots are. Of stages a slot of a task manager holds one subtask of
    each: the first one there the first slot.
    """
    regions, found = Failover(job).regions, list[ControlTask]()
    places = _places_of_operators(job.scenario)
    for plan in job.stages:
        taken: dict[int, int] = {}
        for index, manager in enumerate(plan.stage.placement):
            slot = taken.get(manager, 0)
            taken[manager] = slot + 1
            manager, slot = places.get((plan.stage.name, index), (manager, slot))
            channels = sum(len(link.incoming(index)) for link in plan.inputs)
            channels += sum(len(link.outgoing(index)) for link in plan.outputs)
            region, operators = regions[len(found)], len(plan.members)
            found.append(
                ControlTask(
                    plan.name, index, manager, slot, region, plan.is_source, channels, operators
                )
            )
    return found


def _places_of_operators(scenario: Scenario) -> dict[tuple[str, int], tuple[int, int]]:
    """Return task manager and slot of each subtask, by operator; of stages none."""
    if not scenario.operators:
        return {}
    found = (scenario.operators, scenario.edges, scenario.cluster, scenario.options)
    placed = place(*found, problems=[])
    if placed is None:
        raise ValueError("the scenario's operators have no places: read it before it is laid out")
    return {
        (name, index): placed.places[vertex.name, index]
        for vertex in placed.graph.job.vertices
        for name in vertex.operators
        for index in range(vertex.parallelism)
    }


def control_table(run: Run, window: Window) -> pa.Table:
    """Return the calls of a run's control plane within a window.

    ``window``: its edges do not count. One up to the end of the run has the return of the slots
    too, which takes a few calls more.
    """
    rows = {name: run.tables[name].to_pylist() for name in FOLLOWED if name in run.tables}
    failed = [job["stop_at_s"] for job in run.jobs if job["state"] == "failed"]
    failed_us = _us(failed[0]) if failed and failed[0] is not None else None
    has_end = window.end_us == run.job.scenario.duration_us
    return CONTROL_MESSAGES.of_objects(
        message
        for message in control_messages(run.job, rows, failed_us)
        if window.start_us / 1e6 <= message.t_s and (has_end or message.t_s <= window.end_us / 1e6)
    )


def control_messages(
    job: Job, tables: Mapping[str, Rows], failed_us: int | None = None
) -> list[ControlMessage]:
    """Return the calls of a run's control plane, from its start to the return of all slots.

    A call that the tables know of, as an acknowledgement, is made so early that it arrives when
    they say. The job is cancelled at the end of the run, unless it had stopped or failed.

    - ``tables``: rows of ``checkpoints``, ``checkpoint_tasks`` and ``restarts``; those that a run
      has not are left out.
    - ``failed_us``: when the job failed for good, microseconds.

    In order of time; none of a job whose control plane is not known.
    """
    if not has_control_plane(job):
        return []
    return control_messages_of(_Played(job, tables, failed_us).run().log)


class _Played:
    """A control plane to which happens what the tables of a run say."""

    def __init__(self, job: Job, tables: Mapping[str, Rows], failed_us: int | None) -> None:
        self._job, self._tables, self._failed_us = job, tables, failed_us
        scenario = job.scenario
        self._latency, beats = scenario.cluster.control_latency_us, scenario.heartbeat
        self._plane = ControlPlane(
            control_tasks_of(job),
            self._latency,
            CHECK_DELAY if self._latency else 0,
            Heartbeats(beats.interval_us, beats.timeout_us, beats.rpc_failures),
        )
        self._stop = next((one for one in scenario.savepoints if one.stop), None)

    def run(self) -> ControlPlane:
        """Play all of it."""
        plane, end = self._plane, self._job.scenario.duration_us
        plane.lead_resources()
        for task in sorted(plane.tasks, key=lambda task: task.manager):
            if task.executor not in plane.executors:
                plane.start_executor(task.executor)
        plane.submit()
        for us, times, what in [*self._checkpoints(), *self._restarts()]:
            if us <= end:
                plane.at(us, self._behind(what, times))
        if self._failed_us is not None:
            plane.at(self._failed_us, self._behind(self._fail))
        plane.run(start_us(self._job.scenario))
        for own in plane.executors.values():
            own.is_held = True  # from now on the tables say when a task has its state
        plane.at(end, self._behind(self._cancel))
        plane.run(end)
        while not self._is_over():
            plane.step()
        return plane

    def _behind(self, what: Callable[[], None], times: int = 1) -> Callable[[], None]:
        """Return what happens behind all that is due at its moment, and so many times again."""
        for _ in range(times):
            what = partial(self._at_once, what)
        return what

    def _at_once(self, what: Callable[[], None]) -> None:
        self._plane.at(self._plane.now, what)

    def _is_over(self) -> bool:
        job = self._plane.job
        return job is None or job.token is None or self._plane.is_over()

    # ------------------------------------------------------------------ checkpoints

    def _checkpoints(self) -> Iterator[Due]:
        numbers = {(task.vertex, task.subtask): n for n, task in enumerate(self._plane.tasks)}
        for row in self._tables.get("checkpoints", ()):
            number, is_complete = row["checkpoint_id"], row["status"] == "completed"
            yield _us(row["triggered_s"]), 0, partial(self._trigger, number)
            if row["ended_s"] is not None:
                ends = partial(self._end_checkpoint, number, is_complete=is_complete)
                yield _us(row["ended_s"]), 2, ends
                if is_complete and self._stops(row):  # all tasks that run finish
                    finish = partial(self._move, TaskStatus.RUNNING, TaskStatus.FINISHED)
                    yield _us(row["ended_s"]), 2, finish
        for row in self._tables.get("checkpoint_tasks", ()):
            if row["state_bytes"] is not None:  # else it has finished, and said nothing
                task = numbers[row["stage"], row["subtask"]]
                at = max(0, _us(row["acknowledged_s"]) - self._latency)
                yield at, 0, partial(self._acknowledge, task, row["checkpoint_id"])

    def _stops(self, row: Mapping[str, Any]) -> bool:
        return (
            self._stop is not None
            and row["kind"] == "savepoint"
            and _us(row["triggered_s"]) >= self._stop.at_us
        )

    def _trigger(self, checkpoint: int) -> None:
        self._plane.do(self._plane.master.trigger(checkpoint))

    def _acknowledge(self, task: int, checkpoint: int) -> None:
        self._plane.do(self._plane.acknowledge(task, checkpoint))

    def _end_checkpoint(self, checkpoint: int, *, is_complete: bool) -> None:
        own = self._plane.master
        self._plane.do(own.complete(checkpoint) if is_complete else own.abort(checkpoint))

    def _move(self, before: TaskStatus, after: TaskStatus) -> None:
        """Have all tasks of a state report another."""
        for own in self._plane.executors.values():
            for attempt, status in list(own.tasks.items()):
                if status == before:
                    self._plane.do(own.end(attempt, after))

    # ------------------------------------------------------------------ failures

    def _restarts(self) -> Iterator[Due]:
        failures = {failure.victim: failure for failure in self._job.scenario.failures}
        for row in self._tables.get("restarts", ()):
            if row["detected_s"] is None:
                continue
            failed, detected = _us(row["failed_s"]), _us(row["detected_s"])
            causes = [failures.get(cause) for cause in row["cause"].split(" and ")]
            for cause in causes:
                if cause is None or cause.job_manager:
                    continue
                if cause.task_manager is not None:
                    yield failed, 0, partial(self._kill, endpoint_of(cause.task_manager))
                else:
                    yield max(failed, detected - self._latency), 0, partial(self._fail_task, cause)
            yield detected, 1, partial(self._detect, causes)
            if row["restarted_s"] is not None:
                new_leader = any(cause is not None and cause.job_manager for cause in causes)
                yield _us(row["restarted_s"]), 2, partial(self._restart, new_leader=new_leader)
            if row["running_s"] is not None:  # all tasks run that have restored their state
                begin = partial(self._move, TaskStatus.INITIALIZING, TaskStatus.RUNNING)
                yield _us(row["running_s"]), 3, begin

    def _kill(self, name: str) -> None:
        if name in self._plane.executors:
            self._plane.kill_executor(name)

    def _fail_task(self, cause: Failure) -> None:
        assert cause.stage is not None
        victim = self._job.stage(cause.stage).name, cause.subtask
        for number, task in enumerate(self._plane.tasks):
            own = self._plane.executors.get(task.executor)
            if own is not None and (task.vertex, task.subtask) == victim:
                for attempt in [one for one in own.tasks if one[0] == number]:
                    self._plane.do(own.end(attempt, TaskStatus.FAILED))

    def _detect(self, causes: list[Failure | None]) -> None:
        """Have the JobMaster give up what has failed; a process takes the place of a dead one."""
        plane = self._plane
        for cause in causes:
            if cause is None:
                plane.do(plane.master.fail(plane.now, range(len(plane.tasks))))
            elif cause.job_manager:
                plane.master.suspend()
                for own in plane.executors.values():
                    plane.do(own.lose_job(plane.now))
            elif cause.task_manager is not None:
                name = endpoint_of(cause.task_manager)
                plane.do(plane.master.lose(plane.now, name))
                has_tasks = any(task.executor == name for task in plane.tasks)
                if has_tasks and name not in plane.executors:
                    plane.start_executor(name).is_held = True

    def _restart(self, *, new_leader: bool) -> None:
        plane = self._plane
        if new_leader:
            plane.lead_job()
            return
        own = plane.master
        tasks = own.restarting()
        if own.status == JobStatus.RESTARTING and tasks and own.is_cancelled():
            plane.do(own.restart(plane.now, tasks))

    # ------------------------------------------------------------------ ends

    def _fail(self) -> None:
        own = self._plane.master
        if own.status in {JobStatus.RUNNING, JobStatus.RESTARTING}:
            self._plane.do(own.fail_job())

    def _cancel(self) -> None:
        own = self._plane.master
        if own.status not in {*JOB_ENDS, JobStatus.CANCELLING}:
            self._plane.do(own.cancel())


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
