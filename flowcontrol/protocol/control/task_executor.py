"""A task executor: its slots, the tasks in them, and whom it is registered with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control.calls import (
    JOB_MASTER,
    RESOURCE_MANAGER,
    SIZES,
    After,
    Call,
    ControlTask,
    Effect,
    Name,
    Reply,
    accumulators_bytes,
    acknowledge_bytes,
    offer_bytes,
    report_bytes,
    slot_report_bytes,
)
from flowcontrol.protocol.control.registration import Registration
from flowcontrol.protocol.control.states import TASK_ENDS, TaskStatus, move

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
    """One slot.

    Attributes
    ----------
    status : SlotStatus
        ALLOCATED: asked for by the resource manager, and not confirmed by a JobMaster, or no more.
    until : int
        When an ALLOCATED slot is freed, microseconds.
    """

    status: SlotStatus = SlotStatus.FREE
    until: int = 0


class TaskExecutor:
    """One process of a task manager.

    Parameters
    ----------
    name : str
        Its endpoint.
    start : int
        When the process began: a new one is not the old one.
    slots : sequence of int
        Its slots.
    tasks : sequence of ControlTask
        All tasks of the job, by number.

    Attributes
    ----------
    slots : dict of int to Slot
        By index.
    tasks : dict of (int, int) to TaskStatus
        Attempts that it was given and that have not ended.
    resource_leader, job_leader : str or None
        Leader ids that it knows.
    is_held : bool
        A task that was submitted waits, INITIALIZING, until :meth:`run`.

    Notes
    -----
    ``TaskExecutor``, ``TaskSlotTableImpl``, ``JobLeaderService``. It is not fenced: it looks at the
    leader id that a call carries.
    """

    def __init__(
        self, name: str, start: int, slots: Sequence[int], tasks: Sequence[ControlTask]
    ) -> None:
        self.name, self.start, self._job = name, start, tasks
        self.slots = {slot: Slot() for slot in slots}
        self.tasks: dict[Attempt, TaskStatus] = {}
        self.resource_leader: str | None = None
        self.job_leader: str | None = None
        self.is_held = False
        self._at_resources, self._at_job = Registration(), Registration()
        self._asked_job = False
        self._most_operators = max((task.operators for task in tasks), default=1)
        self._most_tasks = sum(task.executor == name for task in tasks)

    # ------------------------------------------------------------------ leaders

    def hear_resource_leader(self, now: int, token: str) -> list[Effect]:
        """Learn of a leader of the resource manager, and register with it; tasks run on."""
        self.resource_leader, self._at_resources = token, Registration()
        return self._call_resources(now)

    def hear_job_leader(self, now: int, token: str) -> list[Effect]:
        """Learn of a JobMaster; with a slot for the job register with it, or anew with another."""
        if token == self.job_leader:
            return []
        found = self.lose_job(now)
        self.job_leader = token
        return found + self._call_job(now)

    def lose_job(self, now: int) -> list[Effect]:
        """Have no JobMaster any more: fail its tasks, and keep its slots for a while."""
        self.tasks.clear()
        self.job_leader, self._at_job, self._asked_job = None, Registration(), False
        found = list[Effect]()
        for index, slot in self.slots.items():
            if slot.status == SlotStatus.ACTIVE:
                found.append(self._keep(now, index))
        return found

    # ------------------------------------------------------------------ calls

    def hear(self, now: int, call: Call) -> list[Effect]:
        """Execute a call.

        Raises
        ------
        ProtocolError
            If it is not executed, with the reason; nothing has changed then.
        """
        if call.name == Name.REQUEST_SLOT:
            return self._request(now, call)
        if call.name == Name.HEARTBEAT_FROM_RESOURCE_MANAGER:
            return self._answer_resources(call)
        if call.name == Name.HEARTBEAT_FROM_JOB_MANAGER:
            return self._answer_job(call)
        if call.name in {Name.CANCEL_TASK, Name.TRIGGER_CHECKPOINT}:
            return self._order(call)
        if call.name in {Name.SUBMIT_TASK, Name.FREE_SLOT} and call.token != self.job_leader:
            raise ProtocolError(
                f"{self.name} ignores {call.name} of JobMaster {call.token}: its JobMaster is "
                f"{self.job_leader}"
            )
        if call.name == Name.SUBMIT_TASK:
            return self._submit(call)
        if call.name == Name.FREE_SLOT:
            self._free(call.args[0])
        return []

    def reply(self, now: int, reply: Reply) -> list[Effect]:
        """Take the answer to a registration or an offer; or hear that it was given up."""
        if reply.name == "disconnect":
            return self._given_up(now, reply)
        if reply.name == Name.OFFER_SLOTS:
            if reply.value[:1] == (self.job_leader,):
                self._confirm(reply.value[1], reply.value[2])
            return []
        is_job = reply.name == Name.REGISTER_TASK_MANAGER
        own = self._at_job if is_job else self._at_resources
        leader = self.job_leader if is_job else self.resource_leader
        if reply.name not in {Name.REGISTER_TASK_MANAGER, Name.REGISTER_TASK_EXECUTOR}:
            return []
        if not reply.value or reply.value[0] != leader or own.is_done:
            return []
        if reply.error:
            at = own.failed(now)
            return [After(at, self.name, reply.name, (self.start, leader, own.tries, False))]
        if not own.answered(reply.value[1]):
            return []
        return list(self._offers(now)) if is_job else [self._slot_report()]

    def act(self, now: int, due: After) -> list[Effect]:
        """Do what is due: register again, or free a slot that nobody wants."""
        if due.value[0] != self.start:
            return []
        if due.what == "slot":
            slot = self.slots[due.value[1]]
            if slot.status == SlotStatus.ALLOCATED and slot.until <= now:
                self._free(due.value[1])
            return []
        is_job = due.what == Name.REGISTER_TASK_MANAGER
        own = self._at_job if is_job else self._at_resources
        leader = self.job_leader if is_job else self.resource_leader
        if due.value[1:3] != (leader, own.tries) or own.is_done:
            return []
        if due.value[3]:
            own.timed_out(now)
        return self._call_job(now) if is_job else self._call_resources(now)

    # ------------------------------------------------------------------ tasks

    def run(self, attempt: Attempt) -> list[Effect]:
        """Have a task run that was submitted."""
        return [self._report(attempt, TaskStatus.RUNNING)]

    def end(self, attempt: Attempt, status: TaskStatus) -> list[Effect]:
        """Have a task end: FINISHED, or FAILED by itself.

        Raises
        ------
        ProtocolError
            If it cannot end like that.
        """
        return [self._report(attempt, status)]

    def acknowledge(self, attempt: Attempt, checkpoint: int) -> list[Effect]:
        """Have a task tell the JobMaster that it has taken a checkpoint."""
        operators = self._job[attempt[0]].operators
        size = acknowledge_bytes(operators, self._most_operators)
        name = Name.ACKNOWLEDGE_CHECKPOINT
        return [Call(self.name, JOB_MASTER, name, self.job_leader, size, (attempt, checkpoint))]

    def _report(self, attempt: Attempt, status: TaskStatus) -> Call:
        move(self.tasks[attempt], status)
        is_end = status in TASK_ENDS
        if is_end:
            del self.tasks[attempt]
        else:
            self.tasks[attempt] = status
        name, size = Name.UPDATE_TASK_EXECUTION_STATE, report_bytes(is_end=is_end)
        return Call(self.name, JOB_MASTER, name, self.job_leader, size, (attempt, status))

    def _submit(self, call: Call) -> list[Effect]:
        attempt: Attempt = call.args[0]
        slot = self.slots[self._job[attempt[0]].slot]
        if slot.status != SlotStatus.ACTIVE:
            raise ProtocolError(f"{self.name} has no active slot for task {attempt[0]}")
        running = [own for own in self.tasks if own[0] == attempt[0]]
        if running:
            raise ProtocolError(f"{self.name} runs task {attempt[0]} already, as {running[0]}")
        self.tasks[attempt] = TaskStatus.DEPLOYING
        found: list[Effect] = [self._report(attempt, TaskStatus.INITIALIZING)]
        return found if self.is_held else found + self.run(attempt)

    def _order(self, call: Call) -> list[Effect]:
        """Cancel a task, or have a source begin a checkpoint; not an attempt that is gone."""
        attempt: Attempt = call.args[0]
        if attempt not in self.tasks or call.name == Name.TRIGGER_CHECKPOINT:
            return []
        self.tasks[attempt] = move(self.tasks[attempt], TaskStatus.CANCELING)
        return [self._report(attempt, TaskStatus.CANCELED)]

    # ------------------------------------------------------------------ slots

    def _request(self, now: int, call: Call) -> list[Effect]:
        if call.token != self.resource_leader:
            raise ProtocolError(
                f"{self.name} ignores {call.name} of resource manager {call.token}: it is "
                f"registered with {self.resource_leader}"
            )
        index, leader = call.args
        found: list[Effect] = [Reply(self.name, RESOURCE_MANAGER, call.name, (index,))]
        if self.slots[index].status == SlotStatus.FREE:
            found.append(self._keep(now, index))
        if leader != self.job_leader:
            return found + self.hear_job_leader(now, leader)
        if self._at_job.is_done:
            return found + list(self._offers(now))
        return found + ([] if self._asked_job else self._call_job(now))

    def _keep(self, now: int, index: int) -> After:
        """Hold a slot for a JobMaster that has not confirmed it."""
        at = now + KEPT_INACTIVE
        self.slots[index] = Slot(SlotStatus.ALLOCATED, at)
        return After(at, self.name, "slot", (self.start, index))

    def _free(self, index: int) -> None:
        self.slots[index] = Slot()
        self.tasks = {own: at for own, at in self.tasks.items() if self._job[own[0]].slot != index}

    def _offers(self, now: int) -> Iterator[Effect]:
        """Offer all slots that the JobMaster has not confirmed."""
        own = [i for i, slot in self.slots.items() if slot.status == SlotStatus.ALLOCATED]
        if own:
            args, size = (self.job_leader, tuple(own)), offer_bytes(len(own))
            yield Call(self.name, JOB_MASTER, Name.OFFER_SLOTS, self.job_leader, size, args)

    def _confirm(self, taken: Sequence[int], refused: Sequence[int]) -> None:
        for index in taken:
            if self.slots[index].status == SlotStatus.ALLOCATED:
                self.slots[index] = Slot(SlotStatus.ACTIVE)
        for index in refused:
            if self.slots[index].status == SlotStatus.ALLOCATED:
                self._free(index)

    # ------------------------------------------------------------------ registration

    def _call_resources(self, now: int) -> list[Effect]:
        own, name = self._at_resources, Name.REGISTER_TASK_EXECUTOR
        late, leader = own.call(now), self.resource_leader
        args = self.start, own.tries
        return [
            Call(self.name, RESOURCE_MANAGER, name, leader, SIZES[name], args),
            After(late, self.name, name, (self.start, leader, own.tries, True)),
        ]

    def _call_job(self, now: int) -> list[Effect]:
        """Register with the JobMaster if there is a slot for it."""
        if all(slot.status == SlotStatus.FREE for slot in self.slots.values()):
            return []
        own, name, self._asked_job = self._at_job, Name.REGISTER_TASK_MANAGER, True
        late, leader = own.call(now), self.job_leader
        args = self.start, own.tries
        return [
            Call(self.name, JOB_MASTER, name, leader, SIZES[name], args),
            After(late, self.name, name, (self.start, leader, own.tries, True)),
        ]

    def _slot_report(self) -> Call:
        name = Name.SEND_SLOT_REPORT
        args = (self._taken(),)
        return Call(self.name, RESOURCE_MANAGER, name, self.resource_leader, SIZES[name], args)

    def _taken(self) -> dict[int, bool]:
        return {i: slot.status != SlotStatus.FREE for i, slot in self.slots.items()}

    def _answer_resources(self, call: Call) -> list[Effect]:
        if call.token != self.resource_leader or not self._at_resources.is_done:
            return []  # HeartbeatManagerImpl.requestHeartbeat answers only whom it monitors
        taken = self._taken()
        size = slot_report_bytes(sum(taken.values()), len(taken))
        name = Name.HEARTBEAT_FROM_TASK_MANAGER
        return [Call(self.name, RESOURCE_MANAGER, name, call.token, size, (taken,))]

    def _answer_job(self, call: Call) -> list[Effect]:
        if call.token != self.job_leader or not self._at_job.is_done:
            return []
        size = accumulators_bytes(len(self.tasks), self._most_tasks)
        return [Call(self.name, JOB_MASTER, Name.HEARTBEAT_FROM_TASK_MANAGER, call.token, size)]

    def _given_up(self, now: int, reply: Reply) -> list[Effect]:
        """Be given up by a leader: register anew; without a JobMaster its tasks fail."""
        if reply.source == RESOURCE_MANAGER and reply.value == (self.resource_leader,):
            return self.hear_resource_leader(now, str(self.resource_leader))
        if reply.source == JOB_MASTER and reply.value == (self.job_leader,):
            leader = str(self.job_leader)
            return self.lose_job(now) + self.hear_job_leader(now, leader)
        return []
