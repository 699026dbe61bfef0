"""A JobMaster: the attempts of a job's tasks, its slots, and its checkpoints' messages."""

from collections.abc import Iterable, Iterator, Sequence

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control import calls as c
from flowcontrol.protocol.control.calls import JOB_ENDS, TASK_ENDS, JobStatus, TaskStatus, move
from flowcontrol.protocol.control.endpoint import Endpoint, Heartbeats, Registration, check_token
from flowcontrol.protocol.control.resource_manager import Place
from flowcontrol.protocol.control.task_executor import Attempt

_DEPLOYED = (TaskStatus.DEPLOYING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)
_RUNNING = (JobStatus.RUNNING, JobStatus.RESTARTING)


class JobMaster(Endpoint):
    """The master of one job while it is its leader.

    ``JobMaster``, ``DefaultScheduler``, ``DeclarativeSlotPool``. A region's tasks are sent when all
    its slots are there, in the order of the tasks; Flink has none.

    - ``token``: None: it was suspended.
    - ``status``: state of the job.
    - ``tasks``: state of the latest attempt of each task.
    - ``attempts``: its number, from 0.
    - ``slots``: slots that it was given.
    - ``executors``: registered task executors, and the start of the process.
    - ``completed``: the latest completed checkpoint; -1: none.
    """

    beat = c.Name.HEARTBEAT_FROM_JOB_MANAGER

    def __init__(
        self,
        tasks: Sequence[c.ControlTask],
        token: str,
        before: "JobMaster | None" = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        super().__init__(c.JOB_MASTER, heartbeats)
        self.token: str | None = token
        self.status = JobStatus.INITIALIZING
        self.tasks = [TaskStatus.CREATED for _ in tasks]
        self.attempts = [0 for _ in tasks]
        self.completed: int = -1 if before is None else before.completed
        if before is not None:
            self.attempts = [number + 1 for number in before.attempts]
        self.slots: set[Place] = set()
        self.executors: dict[str, int] = {}
        self.pending: dict[int, set[int]] = {}
        self._job, self._places = tasks, c.places_of(tasks)
        self._most_channels = max((task.channels for task in tasks), default=0)
        self._required = 0

    # ------------------------------------------------------------------ leadership

    @property
    def identity(self) -> str | None:
        """Its token, which is its leader id."""
        return self.token

    def start(self, now: int) -> Iterator[c.Effect]:
        """Begin: have all tasks scheduled, which ask for their slots."""
        self.status = move(move(self.status, JobStatus.CREATED), JobStatus.RUNNING)
        self.tasks = [move(one, TaskStatus.SCHEDULED) for one in self.tasks]
        yield self._next_beat(now)

    def suspend(self) -> None:
        """Lead no more: the job ends here, and only here; every call is refused."""
        if self.status not in JOB_ENDS:
            self.status = move(self.status, JobStatus.SUSPENDED)
        self.token = None
        for own in (self.slots, self.executors, self.monitors, self.pending):
            own.clear()

    def hear_resource_leader(self, now: int, token: str) -> Iterator[c.Effect]:
        """Learn of a leader of the resource manager, and register with it; tasks run on."""
        if self.token is not None and self.status not in JOB_ENDS:
            name = c.Name.REGISTER_JOB_MASTER
            self.leaders[name] = own = Registration(c.RESOURCE_MANAGER, name, token)
            yield from self._register(now, own)

    def _registered(self, now: int, own: Registration) -> Iterator[c.Effect]:
        if self.status not in JOB_ENDS:
            yield self._declare(len(self._places))

    def _given_up(self, now: int, reply: c.Reply) -> Iterator[c.Effect]:
        if reply.value[0] == self._resource_leader:
            yield from self.hear_resource_leader(now, reply.value[0])

    @property
    def _resource_leader(self) -> str | None:
        own = self.leaders.get(c.Name.REGISTER_JOB_MASTER)
        return None if own is None else own.leader

    # ------------------------------------------------------------------ calls

    def _check(self, call: c.Call) -> None:
        check_token(c.JOB_MASTER, call.name, call.token, self.token)

    def register_task_manager(
        self, now: int, call: c.Call, start: int, number: int
    ) -> Iterator[c.Effect]:
        """Know a process, once; it takes the place of the one before."""
        who = call.source
        if self.executors.get(who) != start:
            yield from self._drop(now, who)
            self.executors[who] = start
            self.monitors[who] = self._heartbeat.monitor(now)
        yield c.Reply(c.JOB_MASTER, who, call.name, (self.token, number))

    def heartbeat_from_task_manager(self, now: int, call: c.Call) -> Iterator[c.Effect]:
        """Know that a task executor lives."""
        if call.source in self.monitors:
            self.monitors[call.source].answer(now)
        return iter(())

    def heartbeat_from_resource_manager(
        self, now: int, call: c.Call, leader: str
    ) -> Iterator[c.Effect]:
        """Say that it lives."""
        yield self._call(c.RESOURCE_MANAGER, self.beat, leader)

    def reply(self, now: int, reply: c.Reply) -> Iterator[c.Effect]:
        """Take an answer, unless it leads no more."""
        return super().reply(now, reply) if self.token is not None else iter(())

    # ------------------------------------------------------------------ slots

    def _declare(self, count: int) -> c.Call:
        self._required = count
        name, leader = c.Name.DECLARE_REQUIRED_RESOURCES, self._resource_leader
        part = min(1, count)
        return self._call(c.RESOURCE_MANAGER, name, leader, self.token, count, part=part, whole=1)

    def offer_slots(
        self, now: int, call: c.Call, leader: str, offered: Sequence[int]
    ) -> Iterator[c.Effect]:
        """Take the slots that the job needs, and refuse the others."""
        who, places = call.source, set(self._places)
        if who not in self.executors or self.status in JOB_ENDS:
            places = set()
        taken = [slot for slot in offered if (who, slot) in places]
        self.slots.update((who, slot) for slot in taken)
        refused = [slot for slot in offered if slot not in taken]
        yield c.Reply(c.JOB_MASTER, who, call.name, (self.token, tuple(taken), tuple(refused)))
        yield from self._deploy()

    def _deploy(self) -> Iterator[c.Effect]:
        """Send the tasks of each region whose slots are all there."""
        if self.status not in _RUNNING:
            return
        waiting: dict[int, list[int]] = {}
        for number in range(len(self.tasks)):
            if self._waits(number):
                waiting.setdefault(self._job[number].region, []).append(number)
        for own in waiting.values():
            if all(self._job[number].place in self.slots for number in own):
                yield from map(self._submit, own)

    def _waits(self, number: int) -> bool:
        """Tell whether a task waits for the slots of its region."""
        return self.tasks[number] == TaskStatus.SCHEDULED

    def _submit(self, number: int) -> c.Call:
        task = self._job[number]
        self.tasks[number] = move(self.tasks[number], TaskStatus.DEPLOYING)
        args, part = (self._attempt(number), self.completed), task.channels
        most = self._most_channels
        return self._call(
            task.executor, c.Name.SUBMIT_TASK, self.token, *args, part=part, whole=most
        )

    def _attempt(self, number: int) -> Attempt:
        return number, self.attempts[number]

    def _give_back(self) -> Iterator[c.Effect]:
        """Free all slots of a job that is over, and declare what is still needed after each."""
        left = len(self._places)
        for place in self._places:
            left -= 1
            if place in self.slots:
                yield self._call(place[0], c.Name.FREE_SLOT, self.token, place[1])
            yield self._declare(left)
        self.slots.clear()

    # ------------------------------------------------------------------ tasks

    def update_task_execution_state(
        self, now: int, call: c.Call, attempt: Attempt, status: TaskStatus
    ) -> Iterator[c.Effect]:
        """Take a report of a task; one of an attempt that is over is passed over."""
        number = attempt[0]
        before, is_end = self.tasks[number], status in TASK_ENDS
        if attempt != self._attempt(number) or before in TASK_ENDS:
            return
        if before == TaskStatus.CANCELING:
            if not is_end:
                return
            status = TaskStatus.FAILED if status == TaskStatus.FAILED else TaskStatus.CANCELED
        if status == TaskStatus.FAILED and self.status in _RUNNING:
            yield from self.fail(now, [number])
        else:
            self.tasks[number] = move(before, status)
            yield from self._look_for_end()

    def fail(self, now: int, numbers: Iterable[int]) -> Iterator[c.Effect]:
        """Have tasks fail: the others of their regions are cancelled.

        What follows is a call of :meth:`restart`, when the delay of the strategy is over and
        :meth:`is_cancelled`, or of :meth:`fail_job`.
        """
        failed = set(numbers)
        regions = {self._job[number].region for number in failed}
        if self.status == JobStatus.RUNNING:
            self.status = move(self.status, JobStatus.RESTARTING)
        for number, task in enumerate(self._job):
            if number in failed and self.tasks[number] not in TASK_ENDS:
                self.tasks[number] = move(self.tasks[number], TaskStatus.FAILED)
            elif task.region in regions:
                yield from self._cancel(number)

    def restarting(self) -> list[int]:
        """Return the tasks of regions that have failed and have not begun anew."""
        gone = {TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.CANCELING}
        regions = {self._job[number].region for number, one in enumerate(self.tasks) if one in gone}
        return [n for n, task in enumerate(self._job) if task.region in regions]

    def is_cancelled(self) -> bool:
        """Tell whether no task is being cancelled any more."""
        return TaskStatus.CANCELING not in self.tasks

    def restart(self, now: int, numbers: Sequence[int]) -> Iterator[c.Effect]:
        """Have tasks begin anew; where slots are missing they are asked for.

        Raises ProtocolError if one of them has not ended.
        """
        for number in numbers:
            if self.tasks[number] not in TASK_ENDS:
                raise ProtocolError(
                    f"task {number} is {self.tasks[number]}: it begins anew when it has ended"
                )
        for number in numbers:
            self.tasks[number] = move(TaskStatus.CREATED, TaskStatus.SCHEDULED)
            self.attempts[number] += 1
        if not self.restarting():
            self.status = move(self.status, JobStatus.RUNNING)
        yield from self._deploy()
        if any(self._waits(n) and t.place not in self.slots for n, t in enumerate(self._job)):
            yield self._declare(len(self._places))  # of others too: they were given up meanwhile

    def fail_job(self) -> Iterator[c.Effect]:
        """Have the job fail for good: no restart is allowed."""
        self.status = move(self.status, JobStatus.FAILING)
        yield from self._cancel_all()

    def cancel(self) -> Iterator[c.Effect]:
        """Cancel the job."""
        self.status = move(self.status, JobStatus.CANCELLING)
        yield from self._cancel_all()

    def _cancel_all(self) -> Iterator[c.Effect]:
        for number in range(len(self.tasks)):
            yield from self._cancel(number)
        yield from self._look_for_end()

    def _cancel(self, number: int) -> Iterator[c.Effect]:
        before, task = self.tasks[number], self._job[number]
        if before in {TaskStatus.CREATED, TaskStatus.SCHEDULED}:
            self.tasks[number] = move(before, TaskStatus.CANCELED)
        elif before in _DEPLOYED:
            self.tasks[number] = move(before, TaskStatus.CANCELING)
            yield self._call(task.executor, c.Name.CANCEL_TASK, self.token, self._attempt(number))

    def _look_for_end(self) -> Iterator[c.Effect]:
        """Have the job end if its tasks have."""
        ends = {JobStatus.CANCELLING: JobStatus.CANCELED, JobStatus.FAILING: JobStatus.FAILED}
        if self.status in ends and all(one in TASK_ENDS for one in self.tasks):
            self.status = move(self.status, ends[self.status])
            yield from self._give_back()
        elif all(one == TaskStatus.FINISHED for one in self.tasks):
            self.status = move(self.status, JobStatus.FINISHED)
            yield from self._give_back()

    # ------------------------------------------------------------------ task executors

    def lose(self, now: int, who: str) -> Iterator[c.Effect]:
        """Give up a task executor: its tasks fail, and its slots are gone."""
        yield from self._drop(now, who)
        yield c.Reply(c.JOB_MASTER, who, "disconnect", (self.token,))

    _give_up = lose

    def _drop(self, now: int, who: str) -> Iterator[c.Effect]:
        self.executors.pop(who, None)
        self.monitors.pop(who, None)
        gone = {place for place in self.slots if place[0] == who}
        self.slots -= gone
        failed = [
            number
            for number, task in enumerate(self._job)
            if task.executor == who
            and (self.tasks[number] in _DEPLOYED or self.tasks[number] == TaskStatus.CANCELING)
        ]
        if not gone or self.status in JOB_ENDS:
            return
        if self.status in _RUNNING:
            yield from self.fail(now, failed)
            waiting = {self._job[n].place for n in range(len(self._job)) if self._waits(n)}
            yield self._declare(self._required - len(gone - waiting))
            return
        for number in failed:
            self.tasks[number] = move(self.tasks[number], TaskStatus.FAILED)
        yield from self._look_for_end()

    def _ask(self, now: int) -> Iterator[c.Effect]:
        return iter(()) if self.status in JOB_ENDS else super()._ask(now)

    def _asked(self, who: str) -> c.Call:
        held = sum(place[0] == who for place in self.slots)
        own = sum(place[0] == who for place in self._places)
        return self._call(who, self.beat, self.token, part=held, whole=own)

    # ------------------------------------------------------------------ checkpoints

    def trigger(self, checkpoint: int) -> Iterator[c.Effect]:
        """Have the sources of a job begin a checkpoint."""
        self.pending[checkpoint] = set()
        sources = [n for n, task in enumerate(self._job) if task.is_source]
        yield from self._tell(c.Name.TRIGGER_CHECKPOINT, sources, checkpoint)

    def abort(self, checkpoint: int) -> Iterator[c.Effect]:
        """Tell all tasks that a checkpoint is not taken after all."""
        if self.pending.pop(checkpoint, None) is not None:
            yield from self._tell(c.Name.ABORT_CHECKPOINT, range(len(self._job)), checkpoint)

    def complete(self, checkpoint: int) -> Iterator[c.Effect]:
        """Tell all tasks that a checkpoint is complete, if nobody has done so."""
        if self.pending.pop(checkpoint, None) is not None:
            self.completed = checkpoint
            yield from self._tell(c.Name.CONFIRM_CHECKPOINT, range(len(self._job)), checkpoint)

    def acknowledge_checkpoint(
        self, now: int, call: c.Call, attempt: Attempt, checkpoint: int
    ) -> Iterator[c.Effect]:
        """Take an acknowledgement; the last one makes it complete."""
        if checkpoint not in self.pending or attempt != self._attempt(attempt[0]):
            return
        self.pending[checkpoint].add(attempt[0])
        if all(
            number in self.pending[checkpoint] or status == TaskStatus.FINISHED
            for number, status in enumerate(self.tasks)
        ):
            yield from self.complete(checkpoint)

    def _tell(self, name: c.Name, numbers: Iterable[int], checkpoint: int) -> Iterator[c.Effect]:
        for number in numbers:
            if self.tasks[number] in _DEPLOYED:
                who, args = self._job[number].executor, (self._attempt(number), checkpoint)
                yield self._call(who, name, self.token, *args)
