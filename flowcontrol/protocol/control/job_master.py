"""A JobMaster: the attempts of a job's tasks, its slots, and its checkpoints' messages."""

from collections.abc import Iterable, Iterator, Sequence

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control.calls import (
    JOB_MASTER,
    JOB_MASTER_ANSWERS,
    RESOURCE_MANAGER,
    SIZES,
    After,
    Call,
    ControlTask,
    Effect,
    Name,
    Reply,
    asks_executor_bytes,
    declared_bytes,
    places_of,
    submit_bytes,
)
from flowcontrol.protocol.control.fencing import check_token
from flowcontrol.protocol.control.heartbeats import HeartbeatMonitor, Heartbeats
from flowcontrol.protocol.control.registration import Registration
from flowcontrol.protocol.control.resource_manager import Place
from flowcontrol.protocol.control.states import JOB_ENDS, TASK_ENDS, JobStatus, TaskStatus, move
from flowcontrol.protocol.control.task_executor import Attempt

_DEPLOYED = (TaskStatus.DEPLOYING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)


class JobMaster:
    """The master of one job while it is its leader.

    Parameters
    ----------
    tasks : sequence of ControlTask
        All tasks of the job.
    token : str
        Its fencing token, which is its leader id.
    before : JobMaster, optional
        The one whose place it takes: attempts are numbered on, and checkpoints known.
    heartbeats : Heartbeats, optional
        How it asks for them.

    Attributes
    ----------
    token : str or None
        None: it was suspended.
    status : JobStatus
        State of the job.
    tasks : list of TaskStatus
        State of the latest attempt of each task.
    attempts : list of int
        Its number, from 0.
    slots : set of (str, int)
        Slots that it was given.
    executors : dict of str to int
        Registered task executors, and the start of the process.
    completed : int
        The latest completed checkpoint; -1: none.
    monitors : dict of str to HeartbeatMonitor
        By task executor that it asks for heartbeats.

    Notes
    -----
    ``JobMaster``, ``DefaultScheduler``, ``DeclarativeSlotPool``. A region's tasks are sent when all
    its slots are there, in the order of the tasks; Flink has none.
    """

    def __init__(
        self,
        tasks: Sequence[ControlTask],
        token: str,
        before: "JobMaster | None" = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeat = heartbeats or Heartbeats()
        self.token: str | None = token
        self.status = JobStatus.INITIALIZING
        self.tasks = [TaskStatus.CREATED for _ in tasks]
        self.attempts = [0 for _ in tasks]
        self.completed = -1
        if before is not None:
            self.attempts = [number + 1 for number in before.attempts]
            self.completed = before.completed
        self.slots: set[Place] = set()
        self.executors: dict[str, int] = {}
        self.monitors: dict[str, HeartbeatMonitor] = {}
        self.pending: dict[int, set[int]] = {}
        self._job, self._leader = tasks, token
        self._places = places_of(tasks)
        self._most_channels = max((task.channels for task in tasks), default=0)
        self._required = 0
        self._resource_leader: str | None = None
        self._at_resources = Registration()

    # ------------------------------------------------------------------ leadership

    def start(self, now: int) -> list[Effect]:
        """Begin: have all tasks scheduled, which ask for their slots."""
        self.status = move(move(self.status, JobStatus.CREATED), JobStatus.RUNNING)
        self.tasks = [move(one, TaskStatus.SCHEDULED) for one in self.tasks]
        return [After(now + self._heartbeat.interval, JOB_MASTER, "heartbeat", (self._leader,))]

    def suspend(self) -> None:
        """Lead no more: the job ends here, and only here; every call is refused."""
        if self.status not in JOB_ENDS:
            self.status = move(self.status, JobStatus.SUSPENDED)
        self.token = None
        self.slots.clear()
        self.executors.clear()
        self.monitors.clear()
        self.pending.clear()

    def hear_resource_leader(self, now: int, token: str) -> list[Effect]:
        """Learn of a leader of the resource manager, and register with it; tasks run on."""
        if self.token is None or self.status in JOB_ENDS:
            return []
        self._resource_leader, self._at_resources = token, Registration()
        return self._register(now)

    def _register(self, now: int) -> list[Effect]:
        own, name = self._at_resources, Name.REGISTER_JOB_MASTER
        late, args = own.call(now), (self._leader, own.tries)
        value = self._leader, self._resource_leader, own.tries, True
        return [
            Call(JOB_MASTER, RESOURCE_MANAGER, name, self._resource_leader, SIZES[name], args),
            After(late, JOB_MASTER, name, value),
        ]

    # ------------------------------------------------------------------ calls

    def hear(self, now: int, call: Call) -> list[Effect]:
        """Execute a call.

        Raises
        ------
        FencingTokenError
            If it is for another JobMaster; nothing has changed then.
        """
        check_token(JOB_MASTER, call.name, call.token, self.token)
        who = call.source
        if call.name == Name.REGISTER_TASK_MANAGER:
            start, number = call.args
            found = list[Effect]()
            if self.executors.get(who) != start:
                found = self._drop(now, who)
                self.executors[who] = start
                self.monitors[who] = self._heartbeat.monitor(now)
            return [*found, Reply(JOB_MASTER, who, call.name, (self.token, number))]
        if call.name == Name.OFFER_SLOTS:
            return self._offered(who, call.args[1])
        if call.name == Name.UPDATE_TASK_EXECUTION_STATE:
            return self._updated(now, *call.args)
        if call.name == Name.ACKNOWLEDGE_CHECKPOINT:
            return self._acknowledged(*call.args)
        if call.name == Name.HEARTBEAT_FROM_TASK_MANAGER and who in self.monitors:
            self.monitors[who].answer(now)
        if call.name == Name.HEARTBEAT_FROM_RESOURCE_MANAGER:
            name, token, size = Name.HEARTBEAT_FROM_JOB_MANAGER, call.args[0], JOB_MASTER_ANSWERS
            return [Call(JOB_MASTER, RESOURCE_MANAGER, name, token, size)]
        return []

    def reply(self, now: int, reply: Reply) -> list[Effect]:
        """Take the answer to a registration, or notice of a heartbeat that failed."""
        if reply.name == Name.HEARTBEAT_FROM_JOB_MANAGER and reply.error:
            monitor = self.monitors.get(reply.source)
            if monitor is not None and monitor.fail(now):
                return self.lose(now, reply.source)
        own = self._at_resources
        leader = self._resource_leader
        if reply.name == "disconnect" and leader is not None and reply.value == (leader,):
            return self.hear_resource_leader(now, leader)
        if reply.name != Name.REGISTER_JOB_MASTER or own.is_done or self.token is None:
            return []
        if reply.value[:1] != (self._resource_leader,):
            return []
        if reply.error:
            value = self._leader, self._resource_leader, own.tries, False
            return [After(own.failed(now), JOB_MASTER, reply.name, value)]
        if not own.answered(reply.value[1]) or self.status in JOB_ENDS:
            return []
        return [self._declare(len(self._places))]

    def act(self, now: int, due: After) -> list[Effect]:
        """Do what is due: heartbeats, or register again."""
        if due.value[0] != self.token:
            return []
        if due.what == "heartbeat":
            return list(self._heartbeats(now))
        own = self._at_resources
        if due.value[1:3] != (self._resource_leader, own.tries) or own.is_done:
            return []
        if due.value[3]:
            own.timed_out(now)
        return self._register(now)

    # ------------------------------------------------------------------ slots

    def _declare(self, count: int) -> Call:
        self._required = count
        name, size = Name.DECLARE_REQUIRED_RESOURCES, declared_bytes(count)
        args = self._leader, count
        return Call(JOB_MASTER, RESOURCE_MANAGER, name, self._resource_leader, size, args)

    def _offered(self, who: str, offered: Iterable[int]) -> list[Effect]:
        """Take the slots that the job needs, and refuse the others."""
        is_over = self.status in JOB_ENDS
        taken = (
            [slot for slot in offered if (who, slot) in self._places and not is_over]
            if who in self.executors
            else []
        )
        self.slots.update((who, slot) for slot in taken)
        refused = [slot for slot in offered if slot not in taken]
        value = self.token, tuple(taken), tuple(refused)
        return [Reply(JOB_MASTER, who, Name.OFFER_SLOTS, value), *self._deploy()]

    def _deploy(self) -> Iterator[Effect]:
        """Send the tasks of each region whose slots are all there."""
        if self.status not in {JobStatus.RUNNING, JobStatus.RESTARTING}:
            return
        waiting: dict[int, list[int]] = {}
        for number, status in enumerate(self.tasks):
            if status == TaskStatus.SCHEDULED:
                waiting.setdefault(self._job[number].region, []).append(number)
        for own in waiting.values():
            if all(self._job[number].place in self.slots for number in own):
                yield from map(self._submit, own)

    def _submit(self, number: int) -> Call:
        task = self._job[number]
        self.tasks[number] = move(self.tasks[number], TaskStatus.DEPLOYING)
        size = submit_bytes(task.channels, self._most_channels)
        args = (self._attempt(number), self.completed)
        return Call(JOB_MASTER, task.executor, Name.SUBMIT_TASK, self.token, size, args)

    def _attempt(self, number: int) -> Attempt:
        return number, self.attempts[number]

    def _give_back(self) -> Iterator[Effect]:
        """Free all slots of a job that is over, and declare what is still needed after each."""
        left = len(self._places)
        for place in self._places:
            left -= 1
            if place in self.slots:
                name = Name.FREE_SLOT
                yield Call(JOB_MASTER, place[0], name, self.token, SIZES[name], (place[1],))
            yield self._declare(left)
        self.slots.clear()

    # ------------------------------------------------------------------ tasks

    def _updated(self, now: int, attempt: Attempt, status: TaskStatus) -> list[Effect]:
        """Take a report of a task; one of an attempt that is over is passed over."""
        number = attempt[0]
        before = self.tasks[number]
        if attempt != self._attempt(number) or before in TASK_ENDS:
            return []
        if before == TaskStatus.CANCELING:
            if status not in TASK_ENDS:
                return []
            status = TaskStatus.FAILED if status == TaskStatus.FAILED else TaskStatus.CANCELED
        if status == TaskStatus.FAILED and self.status == JobStatus.RUNNING:
            return self.fail(now, [number])
        if status == TaskStatus.FAILED and self.status == JobStatus.RESTARTING:
            return self.fail(now, [number])
        self.tasks[number] = move(before, status)
        return list(self._look_for_end())

    def fail(self, now: int, numbers: Iterable[int]) -> list[Effect]:
        """Have tasks fail: the others of their regions are cancelled.

        What follows is a call of :meth:`restart`, when the delay of the strategy is over and
        :meth:`is_cancelled`, or of :meth:`fail_job`.
        """
        failed = set(numbers)
        regions = {self._job[number].region for number in failed}
        if self.status == JobStatus.RUNNING:
            self.status = move(self.status, JobStatus.RESTARTING)
        found: list[Effect] = []
        for number, task in enumerate(self._job):
            if number in failed and self.tasks[number] not in TASK_ENDS:
                self.tasks[number] = move(self.tasks[number], TaskStatus.FAILED)
            elif task.region in regions:
                found += self._cancel(number)
        return found

    def restarting(self) -> list[int]:
        """Return the tasks of regions that have failed and have not begun anew."""
        gone = {TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.CANCELING}
        regions = {self._job[number].region for number, one in enumerate(self.tasks) if one in gone}
        return [n for n, task in enumerate(self._job) if task.region in regions]

    def is_cancelled(self) -> bool:
        """Tell whether no task is being cancelled any more."""
        return TaskStatus.CANCELING not in self.tasks

    def restart(self, now: int, numbers: Sequence[int]) -> list[Effect]:
        """Have tasks begin anew; where slots are missing they are asked for.

        Parameters
        ----------
        now : int
            Microseconds.
        numbers : sequence of int
            Whole regions whose tasks have all ended.

        Raises
        ------
        ProtocolError
            If one of them has not ended.
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
        found = list(self._deploy())
        is_missing = any(self._job[number].place not in self.slots for number in numbers)
        return [*found, self._declare(len(self._places))] if is_missing else found

    def fail_job(self) -> list[Effect]:
        """Have the job fail for good: no restart is allowed."""
        self.status = move(self.status, JobStatus.FAILING)
        return self._cancel_all()

    def cancel(self) -> list[Effect]:
        """Cancel the job."""
        self.status = move(self.status, JobStatus.CANCELLING)
        return self._cancel_all()

    def _cancel_all(self) -> list[Effect]:
        found = [one for number in range(len(self.tasks)) for one in self._cancel(number)]
        return found + list(self._look_for_end())

    def _cancel(self, number: int) -> Iterator[Effect]:
        before, task = self.tasks[number], self._job[number]
        if before in {TaskStatus.CREATED, TaskStatus.SCHEDULED}:
            self.tasks[number] = move(before, TaskStatus.CANCELED)
        elif before in _DEPLOYED:
            self.tasks[number] = move(before, TaskStatus.CANCELING)
            name, args = Name.CANCEL_TASK, (self._attempt(number),)
            yield Call(JOB_MASTER, task.executor, name, self.token, SIZES[name], args)

    def _is_ended(self) -> bool:
        return all(one in TASK_ENDS for one in self.tasks)

    def _look_for_end(self) -> Iterator[Effect]:
        """Have the job end if its tasks have."""
        ends = {JobStatus.CANCELLING: JobStatus.CANCELED, JobStatus.FAILING: JobStatus.FAILED}
        if self._is_ended() and self.status in ends:
            self.status = move(self.status, ends[self.status])
            yield from self._give_back()
        elif all(one == TaskStatus.FINISHED for one in self.tasks):
            self.status = move(self.status, JobStatus.FINISHED)
            yield from self._give_back()

    # ------------------------------------------------------------------ task executors

    def lose(self, now: int, who: str) -> list[Effect]:
        """Give up a task executor: its tasks fail, and its slots are gone."""
        found = self._drop(now, who)
        return [*found, Reply(JOB_MASTER, who, "disconnect", (self.token,))]

    def _drop(self, now: int, who: str) -> list[Effect]:
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
            return []
        if self.status in {JobStatus.RUNNING, JobStatus.RESTARTING}:
            found = self.fail(now, failed)
            return [*found, self._declare(self._required - len(gone))]
        for number in failed:
            self.tasks[number] = move(self.tasks[number], TaskStatus.FAILED)
        return list(self._look_for_end())

    def _heartbeats(self, now: int) -> Iterator[Effect]:
        if self.status in JOB_ENDS:
            return
        for who, monitor in list(self.monitors.items()):
            if monitor.is_dead(now):
                yield from self.lose(now, who)
                continue
            held = sum(place[0] == who for place in self.slots)
            own = sum(place[0] == who for place in self._places)
            name, size = Name.HEARTBEAT_FROM_JOB_MANAGER, asks_executor_bytes(held, own)
            yield Call(JOB_MASTER, who, name, self.token, size)
        at = now + self._heartbeat.interval
        yield After(at, JOB_MASTER, "heartbeat", (self._leader,))

    # ------------------------------------------------------------------ checkpoints

    def trigger(self, checkpoint: int) -> list[Effect]:
        """Have the sources of a job begin a checkpoint."""
        self.pending[checkpoint] = set()
        sources = [n for n, task in enumerate(self._job) if task.is_source]
        return list(self._tell(Name.TRIGGER_CHECKPOINT, sources, checkpoint))

    def abort(self, checkpoint: int) -> list[Effect]:
        """Tell all tasks that a checkpoint is not taken after all."""
        if self.pending.pop(checkpoint, None) is None:
            return []
        return list(self._tell(Name.ABORT_CHECKPOINT, range(len(self._job)), checkpoint))

    def complete(self, checkpoint: int) -> list[Effect]:
        """Tell all tasks that a checkpoint is complete, if nobody has done so."""
        if self.pending.pop(checkpoint, None) is None:
            return []
        self.completed = checkpoint
        return list(self._tell(Name.CONFIRM_CHECKPOINT, range(len(self._job)), checkpoint))

    def _acknowledged(self, attempt: Attempt, checkpoint: int) -> list[Effect]:
        """Take an acknowledgement; the last one makes it complete."""
        if checkpoint not in self.pending or attempt != self._attempt(attempt[0]):
            return []
        self.pending[checkpoint].add(attempt[0])
        has_all = all(
            number in self.pending[checkpoint] or status == TaskStatus.FINISHED
            for number, status in enumerate(self.tasks)
        )
        return self.complete(checkpoint) if has_all else []

    def _tell(self, name: Name, numbers: Iterable[int], checkpoint: int) -> Iterator[Effect]:
        for number in numbers:
            if self.tasks[number] in _DEPLOYED:
                args = self._attempt(number), checkpoint
                who = self._job[number].executor
                yield Call(JOB_MASTER, who, name, self.token, SIZES[name], args)
