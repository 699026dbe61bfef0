"""The control plane of a job, played to its end, and how long each of its steps takes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from typing import Final

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control import calls as c
from flowcontrol.protocol.control.calls import JOB_ENDS, ControlTask, TaskStatus
from flowcontrol.protocol.control.endpoint import Endpoint, Heartbeats, check_token, new_token
from flowcontrol.protocol.control.job_master import JobMaster
from flowcontrol.protocol.control.resource_manager import CHECK_DELAY, ResourceManager
from flowcontrol.protocol.control.task_executor import SlotStatus, TaskExecutor

# --- The control plane of one job: its endpoints, and the calls that are under way


UNREACHABLE: Final = "no such process"
"""Why a call fails whose target has died."""

Item = c.Effect | Callable[[], None]


class ControlPlane:
    """Delivers the calls of a job's endpoints, each a latency after it was made.

    - ``latency``: of a call and of its answer, microseconds.
    - ``check_delay``: of the resource manager, as :class:`ResourceManager` takes it.
    - ``now``: microseconds.
    - ``log``: what was called when, in order of time.
    - ``refused``: what was not executed, and why.
    - ``resources``: the resource manager.
    - ``job``: the JobMaster; None: the job was not submitted yet.
    - ``executors``: those that live, by endpoint.
    """

    def __init__(
        self,
        tasks: Sequence[c.ControlTask],
        latency: int = 0,
        check_delay: int = CHECK_DELAY,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.now, self.log = 0, list[tuple[int, c.Call]]()
        self.refused: list[tuple[int, c.Call, ProtocolError]] = []
        self.tasks, self.latency = tasks, latency
        self.resources = ResourceManager(c.places_of(tasks), check_delay, heartbeats)
        self._heartbeats = heartbeats
        self.job: JobMaster | None = None
        self.executors: dict[str, TaskExecutor] = {}
        self._agenda: list[tuple[int, int, Item]] = []
        self._terms = {c.RESOURCE_MANAGER: 0, c.JOB_MASTER: 0, c.DISPATCHER: 1}
        self._dispatcher = new_token(c.DISPATCHER, 1)
        self._count = self._starts = 0

    # ------------------------------------------------------------------ time

    def at(self, us: int, what: Callable[[], None]) -> None:
        """Have something happen at a moment, behind what is due at it so far."""
        self._push(us, what)

    def run(self, until: int | None = None) -> None:
        """Have everything happen up to a moment, that included; None: until nothing is due."""
        while self._agenda and (until is None or self._agenda[0][0] <= until):
            self.step()
        if until is not None:
            self.now = max(self.now, until)

    def step(self) -> None:
        """Have the next thing happen."""
        self.now, _, item = heappop(self._agenda)
        if callable(item):
            item()
        elif isinstance(item, c.Call):
            self._execute(item)
        elif (own := self._endpoint(item)) is not None:
            now = self.now
            self.do(own.reply(now, item) if isinstance(item, c.Reply) else own.act(now, item))

    def do(self, effects: Iterable[c.Effect]) -> None:
        """Take what an endpoint has caused."""
        for one in effects:
            if isinstance(one, c.After):
                self._push(one.at, one)
                continue
            if isinstance(one, c.Call):
                self.log.append((self.now, one))
            self._push(self.now + self.latency, one)

    def _push(self, us: int, item: Item) -> None:
        self._count += 1
        heappush(self._agenda, (us, self._count, item))

    # ------------------------------------------------------------------ what happens

    def lead_resources(self) -> None:
        """Have a resource manager become the leader; the others hear of it at once."""
        self._terms[c.RESOURCE_MANAGER] += 1
        token = new_token(c.RESOURCE_MANAGER, self._terms[c.RESOURCE_MANAGER])
        self.do(self.resources.lead(self.now, token))
        for own in list(self.executors.values()):
            self.do(own.hear_resource_leader(self.now, token))
        if self.job is not None:
            self.do(self.job.hear_resource_leader(self.now, token))

    def start_executor(self, manager_name: str) -> TaskExecutor:
        """Start the process of a task manager, which registers."""
        self._starts += 1
        slots = sorted({task.slot for task in self.tasks if task.executor == manager_name})
        own = TaskExecutor(manager_name, self._starts, slots, self.tasks)
        self.executors[manager_name] = own
        if self.resources.token is not None:
            self.do(own.hear_resource_leader(self.now, self.resources.token))
        return own

    def kill_executor(self, name: str) -> None:
        """Have a process die: calls to it fail from now on."""
        del self.executors[name]

    def submit(self) -> None:
        """Have a client submit the job."""
        name = c.Name.SUBMIT_JOB
        self.do([c.Call(c.CLIENT, c.DISPATCHER, name, self._dispatcher, c.size_of(name))])

    def lead_job(self) -> JobMaster:
        """Have a JobMaster become the leader of the job, in the place of one that there is.

        Task executors with slots of the job hear of it at once: what they ran fails, and their
        slots wait for it.
        """
        self._terms[c.JOB_MASTER] += 1
        token = new_token(c.JOB_MASTER, self._terms[c.JOB_MASTER])
        if self.job is not None:
            self.job.suspend()
            self.resources.lose(c.JOB_MASTER)
        self.job = JobMaster(self.tasks, token, self.job, self._heartbeats)
        self.do(self.job.start(self.now))
        if self.resources.token is not None:
            self.do(self.job.hear_resource_leader(self.now, self.resources.token))
        for own in list(self.executors.values()):
            if self._terms[c.JOB_MASTER] > 1:
                self.do(own.hear_job_leader(self.now, token))
        return self.job

    @property
    def master(self) -> JobMaster:
        """The JobMaster.

        Raises ProtocolError if the job was not submitted yet.
        """
        if self.job is None:
            raise ProtocolError("there is no JobMaster: submit the job first")
        return self.job

    def acknowledge(self, number: int, checkpoint: int) -> Iterable[c.Effect]:
        """Have the attempt of a task that runs acknowledge a checkpoint."""
        own = self.executors.get(self.tasks[number].executor)
        running = [] if own is None else [one for one in own.tasks if one[0] == number]
        return own.acknowledge(running[0], checkpoint) if own is not None and running else []

    def is_over(self) -> bool:
        """Tell whether the job has ended, and every slot is free that is there."""
        is_ended = self.job is not None and self.job.status in JOB_ENDS
        return is_ended and all(
            slot.status == SlotStatus.FREE
            for own in self.executors.values()
            for slot in own.slots.values()
        )

    def is_running(self) -> bool:
        """Tell whether every task runs, as its task executor knows."""
        running = [
            attempt[0]
            for own in self.executors.values()
            for attempt, status in own.tasks.items()
            if status == TaskStatus.RUNNING
        ]
        return len(running) == len(self.tasks)

    # ------------------------------------------------------------------ delivery

    def _execute(self, call: c.Call) -> None:
        try:
            self.do(self._hear(call))
        except ProtocolError as error:
            self.refused.append((self.now, call, error))
            value = (call.token, *call.args[1:2])
            if call.name == c.Name.REQUEST_SLOT:
                value = call.args[:1]
            self.do([c.Reply(call.target, call.source, call.name, value, str(error))])

    def _hear(self, call: c.Call) -> Iterable[c.Effect]:
        if call.target == c.DISPATCHER:
            check_token(c.DISPATCHER, call.name, call.token, self._dispatcher)
            self.lead_job()
            return []
        if (own := self._endpoint(call)) is None:
            raise ProtocolError(f"{call.target}: {UNREACHABLE}")
        return own.hear(self.now, call)

    def _endpoint(self, item: c.Effect) -> Endpoint | None:
        name = item.who if isinstance(item, c.After) else item.target
        fixed = {c.RESOURCE_MANAGER: self.resources, c.JOB_MASTER: self.job}
        return fixed[name] if name in fixed else self.executors.get(name)


# --- How long a job takes to start, and to be deployed again: the control plane, played through


PATIENCE = 120_000_000
"""How long a process that comes back may take to register here, microseconds: it has done so
before its job restarts."""

MOST_LATENCY = 1_000_000
"""Most that a call may take, microseconds."""


@dataclass(frozen=True, slots=True)
class Durations:
    """What a latency of every call costs, microseconds."""

    start: int = 0  # From the start of task managers and job until all tasks run
    with_slots: int = 0  # From a restart until tasks run whose slots the JobMaster still has
    # The same where slots have to be asked for: their process died, another one has registered.
    without_slots: int = 0
    # From the leadership of a new JobMaster until tasks run in the slots that wait for it.
    new_master: int = 0


@cache
def durations(latency: int) -> Durations:
    """Return what a latency of every call costs a job.

    ``latency``: of a call, and of its answer, microseconds. 0: nothing takes any time.

    It is the same for jobs of any size, because calls to many take no longer than a call to one.
    Raises ValueError if it is out of range: far above a second no JobMaster confirms a slot in
    time, which then is given up and asked for again, for ever.
    """
    if not 0 <= latency <= MOST_LATENCY:
        raise ValueError(f"latency is {latency} us: needs 0 to {MOST_LATENCY}")
    if latency == 0:
        return Durations()
    again = [_again(latency, what) for what in (_fail, _die, ControlPlane.lead_job)]
    return Durations(_deployed(latency).now, *again)


def _deployed(latency: int) -> ControlPlane:
    """Return the control plane of a task as it begins to run."""
    task = ControlTask("task", 0, 0, 0, is_source=True)
    plane = ControlPlane([task], latency)
    plane.lead_resources()
    plane.start_executor(task.executor)
    plane.submit()
    return _run(plane)


def _run(plane: ControlPlane) -> ControlPlane:
    while not plane.is_running():
        plane.step()
    return plane


def _again(latency: int, what: Callable[[ControlPlane], object]) -> int:
    """Return how long after something has happened to it the task runs again."""
    plane = _deployed(latency)
    plane.run(plane.now + latency)
    what(plane)
    begun = plane.now
    if plane.master.restarting():
        plane.do(plane.master.restart(begun, [0]))
    return _run(plane).now - begun


def _fail(plane: ControlPlane) -> None:
    (own,) = plane.executors.values()
    plane.do(own.end((0, 0), TaskStatus.FAILED))
    plane.run(plane.now + plane.latency)


def _die(plane: ControlPlane) -> None:
    name = plane.tasks[0].executor
    plane.kill_executor(name)
    plane.do(plane.master.lose(plane.now, name))
    plane.run(plane.now + plane.latency)
    plane.start_executor(name)
    plane.run(plane.now + PATIENCE)
