"""A task executor: its slots, the tasks in them, and whom it is registered with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control import calls as c
from flowcontrol.protocol.control.calls import TASK_ENDS, TaskStatus, move
from flowcontrol.protocol.control.endpoint import Endpoint, Registration

KEPT_INACTIVE: Final = 10_000_000
"""How long a slot is kept that no JobMaster has confirmed, or whose JobMaster is gone,
microseconds (``taskmanager.slot.timeout``)."""

Attempt = tuple[int, int]
"""A task by its number, and which attempt to run it."""


class SlotStatus(StrEnum):
    """State of a slot (``TaskSlotState``, and FREE)."""

    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"


@dataclass(slots=True)
class Slot:
    """One slot."""

    # ALLOCATED: asked for by the resource manager, and not confirmed by a JobMaster, or no more.
    status: SlotStatus = SlotStatus.FREE
    until: int = 0  # When an ALLOCATED slot is freed, microseconds


class TaskExecutor(Endpoint):
    """One process of a task manager.

    ``TaskExecutor``, ``TaskSlotTableImpl``, ``JobLeaderService``. It is not fenced: it looks at the
    leader id that a call carries.

    - ``start``: when the process began: a new one is not the old one.
    - ``tasks``: all tasks of the job, by number.
    - ``slots``: by index.
    - ``tasks``: attempts that it was given and that have not ended.
    - ``resource_leader``, ``job_leader``: leader ids that it knows.
    - ``is_held``: a task that was submitted waits, INITIALIZING, until :meth:`run`.
    """

    def __init__(
        self, name: str, start: int, slots: Sequence[int], tasks: Sequence[c.ControlTask]
    ) -> None:
        super().__init__(name)
        self.start, self._job = start, tasks
        self.slots = {slot: Slot() for slot in slots}
        self.tasks: dict[Attempt, TaskStatus] = {}
        self.is_held = self._has_asked = False
        self._meet(c.RESOURCE_MANAGER, c.Name.REGISTER_TASK_EXECUTOR)
        self._meet(c.JOB_MASTER, c.Name.REGISTER_TASK_MANAGER)
        self._most_operators = max((task.operators for task in tasks), default=1)
        self._most_tasks = sum(task.executor == name for task in tasks)

    # ------------------------------------------------------------------ leaders

    @property
    def identity(self) -> int:
        """The start of its process."""
        return self.start

    @property
    def resource_leader(self) -> str | None:
        """Leader id of the resource manager that it knows."""
        return self.leaders[c.Name.REGISTER_TASK_EXECUTOR].leader

    @property
    def job_leader(self) -> str | None:
        """Leader id of the JobMaster that it knows."""
        return self.leaders[c.Name.REGISTER_TASK_MANAGER].leader

    def _meet(self, target: str, name: c.Name, leader: str | None = None) -> Registration:
        self.leaders[name] = own = Registration(target, name, leader)
        return own

    def hear_resource_leader(self, now: int, token: str) -> Iterator[c.Effect]:
        """Learn of a leader of the resource manager, and register with it; tasks run on."""
        own = self._meet(c.RESOURCE_MANAGER, c.Name.REGISTER_TASK_EXECUTOR, token)
        yield from self._register(now, own)

    def hear_job_leader(self, now: int, token: str) -> Iterator[c.Effect]:
        """Learn of a JobMaster; with a slot for the job register with it, or anew with another."""
        if token != self.job_leader:
            yield from self.lose_job(now)
            own = self._meet(c.JOB_MASTER, c.Name.REGISTER_TASK_MANAGER, token)
            yield from self._register(now, own)

    def lose_job(self, now: int) -> Iterator[c.Effect]:
        """Have no JobMaster any more: fail its tasks, and keep its slots for a while."""
        self.tasks.clear()
        self._meet(c.JOB_MASTER, c.Name.REGISTER_TASK_MANAGER)
        self._has_asked = False
        for index, slot in self.slots.items():
            if slot.status == SlotStatus.ACTIVE:
                yield self._keep(now, index)

    def _register(self, now: int, own: Registration) -> Iterator[c.Effect]:
        """Register; with the JobMaster if there is a slot for it."""
        if own.target == c.JOB_MASTER:
            if all(slot.status == SlotStatus.FREE for slot in self.slots.values()):
                return
            self._has_asked = True
        yield from super()._register(now, own)

    def _registered(self, now: int, own: Registration) -> Iterator[c.Effect]:
        if own.target == c.JOB_MASTER:
            yield from self._offers()
        else:
            name, args = c.Name.SEND_SLOT_REPORT, (self._taken(),)
            yield self._call(c.RESOURCE_MANAGER, name, self.resource_leader, *args)

    def _given_up(self, now: int, reply: c.Reply) -> Iterator[c.Effect]:
        """Be given up by a leader: register anew; without a JobMaster its tasks fail."""
        leader = str(reply.value[0])
        if reply.source == c.RESOURCE_MANAGER and leader == self.resource_leader:
            yield from self.hear_resource_leader(now, leader)
        elif reply.source == c.JOB_MASTER and leader == self.job_leader:
            yield from self.lose_job(now)
            yield from self.hear_job_leader(now, leader)

    # ------------------------------------------------------------------ calls

    def _check(self, call: c.Call) -> None:
        """Refuse what another JobMaster, or another resource manager, wants of slots."""
        who, own = "JobMaster", self.job_leader
        if call.name == c.Name.REQUEST_SLOT:
            who, own = "resource manager", self.resource_leader
        elif call.name not in {c.Name.SUBMIT_TASK, c.Name.FREE_SLOT}:
            return
        if call.token != own:
            has = "its JobMaster is" if who == "JobMaster" else "it is registered with"
            raise ProtocolError(
                f"{self.name} ignores {call.name} of {who} {call.token}: {has} {own}"
            )

    def reply(self, now: int, reply: c.Reply) -> Iterator[c.Effect]:
        """Take the answer to a registration or an offer; or hear that it was given up."""
        if reply.name == c.Name.OFFER_SLOTS and reply.value[:1] == (self.job_leader,):
            _, taken, refused = reply.value
            for index in (*taken, *refused):
                if self.slots[index].status == SlotStatus.ALLOCATED:
                    self._free(index)
                    if index in taken:
                        self.slots[index] = Slot(SlotStatus.ACTIVE)
        return super().reply(now, reply)

    def _due(self, now: int, due: c.After) -> Iterator[c.Effect]:
        """Free a slot that nobody wants."""
        slot = self.slots[due.value[1]]
        if slot.status == SlotStatus.ALLOCATED and slot.until <= now:
            self._free(due.value[1])
        return iter(())

    # ------------------------------------------------------------------ tasks

    def run(self, attempt: Attempt) -> Iterator[c.Effect]:
        """Have a task run that was submitted."""
        yield self._report(attempt, TaskStatus.RUNNING)

    def end(self, attempt: Attempt, status: TaskStatus) -> Iterator[c.Effect]:
        """Have a task end: FINISHED, or FAILED by itself.

        Raises ProtocolError if it cannot end like that.
        """
        yield self._report(attempt, status)

    def acknowledge(self, attempt: Attempt, checkpoint: int) -> Iterator[c.Effect]:
        """Have a task tell the JobMaster that it has taken a checkpoint."""
        more, most = self._job[attempt[0]].operators - 1, self._most_operators - 1
        name, args = c.Name.ACKNOWLEDGE_CHECKPOINT, (attempt, checkpoint)
        yield self._call(c.JOB_MASTER, name, self.job_leader, *args, part=more, whole=most)

    def _report(self, attempt: Attempt, status: TaskStatus) -> c.Call:
        move(self.tasks[attempt], status)
        is_end = status in TASK_ENDS
        if is_end:
            del self.tasks[attempt]
        else:
            self.tasks[attempt] = status
        name, args = c.Name.UPDATE_TASK_EXECUTION_STATE, (attempt, status)
        part = int(is_end)  # the last one has its accumulators
        return self._call(c.JOB_MASTER, name, self.job_leader, *args, part=part, whole=1)

    def submit_task(
        self, now: int, call: c.Call, attempt: Attempt, checkpoint: int
    ) -> Iterator[c.Effect]:
        """Begin a task in its slot; one that is not held runs at once."""
        slot = self.slots[self._job[attempt[0]].slot]
        if slot.status != SlotStatus.ACTIVE:
            raise ProtocolError(f"{self.name} has no active slot for task {attempt[0]}")
        running = [own for own in self.tasks if own[0] == attempt[0]]
        if running:
            raise ProtocolError(f"{self.name} runs task {attempt[0]} already, as {running[0]}")
        self.tasks[attempt] = TaskStatus.DEPLOYING
        yield self._report(attempt, TaskStatus.INITIALIZING)
        if not self.is_held:
            yield from self.run(attempt)

    def cancel_task(self, now: int, call: c.Call, attempt: Attempt) -> Iterator[c.Effect]:
        """Cancel a task; not an attempt that is gone."""
        if attempt in self.tasks:
            self.tasks[attempt] = move(self.tasks[attempt], TaskStatus.CANCELING)
            yield self._report(attempt, TaskStatus.CANCELED)

    # ------------------------------------------------------------------ slots

    def request_slot(self, now: int, call: c.Call, index: int, leader: str) -> Iterator[c.Effect]:
        """Hold a slot for the job, and offer it to the JobMaster."""
        yield c.Reply(self.name, c.RESOURCE_MANAGER, call.name, (index,))
        if self.slots[index].status == SlotStatus.FREE:
            yield self._keep(now, index)
        own = self.leaders[c.Name.REGISTER_TASK_MANAGER]
        if leader != own.leader:
            yield from self.hear_job_leader(now, leader)
        elif own.is_done:
            yield from self._offers()
        elif not self._has_asked:
            yield from self._register(now, own)

    def free_slot(self, now: int, call: c.Call, index: int) -> Iterator[c.Effect]:
        """Give a slot back."""
        self._free(index)
        return iter(())

    def _keep(self, now: int, index: int) -> c.After:
        """Hold a slot for a JobMaster that has not confirmed it."""
        at = now + KEPT_INACTIVE
        self.slots[index] = Slot(SlotStatus.ALLOCATED, at)
        return c.After(at, self.name, "slot", (self.start, index))

    def _free(self, index: int) -> None:
        self.slots[index] = Slot()
        self.tasks = {own: at for own, at in self.tasks.items() if self._job[own[0]].slot != index}

    def _offers(self) -> Iterator[c.Effect]:
        """Offer all slots that the JobMaster has not confirmed."""
        own = tuple(i for i, slot in self.slots.items() if slot.status == SlotStatus.ALLOCATED)
        if own:
            leader = self.job_leader
            one = self._call(c.JOB_MASTER, c.Name.OFFER_SLOTS, leader, leader, own)
            yield replace(one, nbytes=one.nbytes + c.FURTHER_SLOT * (len(own) - 1))

    # ------------------------------------------------------------------ heartbeats

    def _taken(self) -> dict[int, bool]:
        return {i: slot.status != SlotStatus.FREE for i, slot in self.slots.items()}

    def heartbeat_from_resource_manager(
        self, now: int, call: c.Call, leader: str
    ) -> Iterator[c.Effect]:
        """Say which slots somebody has."""
        # HeartbeatManagerImpl.requestHeartbeat answers only whom it monitors.
        if call.token == self.resource_leader and self._is_with(c.Name.REGISTER_TASK_EXECUTOR):
            taken = self._taken()
            name, sizes = c.Name.HEARTBEAT_FROM_TASK_MANAGER, (sum(taken.values()), len(taken))
            yield self._call(
                c.RESOURCE_MANAGER, name, call.token, taken, part=sizes[0], whole=sizes[1]
            )

    def heartbeat_from_job_manager(self, now: int, call: c.Call) -> Iterator[c.Effect]:
        """Say how the tasks are."""
        if call.token == self.job_leader and self._is_with(c.Name.REGISTER_TASK_MANAGER):
            name, part, whole = (
                c.Name.HEARTBEAT_FROM_TASK_MANAGER,
                len(self.tasks),
                self._most_tasks,
            )
            yield self._call(c.JOB_MASTER, name, call.token, part=part, whole=whole)

    def _is_with(self, name: c.Name) -> bool:
        return self.leaders[name].is_done
