"""The resource manager: who is registered, and which slots are asked for."""

from collections.abc import Iterator, Sequence
from typing import Final

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control.calls import (
    ASKS_JOB_MASTER,
    ASKS_TASK_MANAGER,
    JOB_MASTER,
    RESOURCE_MANAGER,
    SIZES,
    After,
    Call,
    Effect,
    Name,
    Reply,
)
from flowcontrol.protocol.control.fencing import check_token
from flowcontrol.protocol.control.heartbeats import HeartbeatMonitor, Heartbeats

CHECK_DELAY: Final = 50_000
"""From a change of requirements to the requests that follow, microseconds
(``slotmanager.requirement-check.delay``)."""

Place = tuple[str, int]
"""Endpoint of a task executor, and one of its slots."""


class ResourceManager:
    """A resource manager with its slot manager.

    Parameters
    ----------
    places : sequence of (str, int)
        The slots that it takes for the job, in this order: who decides that is
        :func:`flowcontrol.deployment.assign_slots`.
    check_delay : int, optional
        From a change of requirements to what follows, microseconds.
    heartbeats : Heartbeats, optional
        How it asks for them.

    Attributes
    ----------
    token : str or None
        Fencing token; None: it is not the leader.
    executors : dict of str to int
        Registered task executors, and the start of the process that has registered.
    slots : dict of (str, int) to bool
        Slots that were reported, and whether somebody has them.
    required : int
        Slots that the job has declared.
    job_leader : str or None
        Leader id of the JobMaster that is registered.
    monitors : dict of str to HeartbeatMonitor
        By endpoint that it asks for heartbeats.

    Notes
    -----
    ``ResourceManager``, ``DeclarativeSlotManager``. It registers a process once, however often
    that asks.
    """

    def __init__(
        self,
        places: Sequence[Place],
        check_delay: int = CHECK_DELAY,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeat = heartbeats or Heartbeats()
        self.token: str | None = None
        self._places, self._check_delay = places, check_delay
        self._is_checking = False
        self._forget()

    def _forget(self) -> None:
        self.executors: dict[str, int] = {}
        self.slots: dict[Place, bool] = {}
        self._asked: set[Place] = set()
        self.required = 0
        self.job_leader: str | None = None
        self.monitors: dict[str, HeartbeatMonitor] = {}

    def lead(self, now: int, token: str) -> list[Effect]:
        """Become the leader: nothing is known, and everybody registers anew."""
        self.token = token
        self._forget()
        self._is_checking = False
        return [After(now + self._heartbeat.interval, RESOURCE_MANAGER, "heartbeat", (token,))]

    def hear(self, now: int, call: Call) -> list[Effect]:
        """Execute a call.

        Raises
        ------
        FencingTokenError
            If it is for another leader; nothing has changed then.
        ProtocolError
            If a JobMaster declares what it needs that is not the registered one.
        """
        check_token(RESOURCE_MANAGER, call.name, call.token, self.token)
        who = call.source
        if call.name == Name.REGISTER_TASK_EXECUTOR:
            start, number = call.args
            if self.executors.get(who) != start:
                self.lose(who)
                self.executors[who] = start
                self.monitors[who] = self._heartbeat.monitor(now)
            return [Reply(RESOURCE_MANAGER, who, call.name, (self.token, number))]
        if call.name == Name.REGISTER_JOB_MASTER:
            leader, number = call.args
            if self.job_leader != leader:
                self.job_leader, self.required = leader, 0
                self.monitors[JOB_MASTER] = self._heartbeat.monitor(now)
            return [Reply(RESOURCE_MANAGER, who, call.name, (self.token, number))]
        if call.name in {Name.SEND_SLOT_REPORT, Name.HEARTBEAT_FROM_TASK_MANAGER}:
            return self._report(now, who, call.args[0])
        if call.name == Name.HEARTBEAT_FROM_JOB_MANAGER:
            self._answered(now, who)
        elif call.name == Name.DECLARE_REQUIRED_RESOURCES:
            if call.args[0] != self.job_leader:
                raise ProtocolError(
                    f"{RESOURCE_MANAGER} ignores {call.name} of JobMaster {call.args[0]}: the one "
                    f"that is registered is {self.job_leader}"
                )
            self.required = call.args[1]
            return list(self._check_later(now))
        return []

    def reply(self, now: int, reply: Reply) -> list[Effect]:
        """Take the answer to a request for a slot, or notice of a call that was not executed."""
        if reply.name == Name.REQUEST_SLOT:
            self._asked -= {place for place in self._asked if place == (reply.source, *reply.value)}
        monitor = self.monitors.get(reply.source)
        is_heartbeat = reply.name == Name.HEARTBEAT_FROM_RESOURCE_MANAGER
        if reply.error and is_heartbeat and monitor is not None and monitor.fail(now):
            self.lose(reply.source)
            return [self._disconnect(reply.source), *self._check_later(now)]
        return list(self._check_later(now)) if reply.error else []

    def act(self, now: int, due: After) -> list[Effect]:
        """Do what is due."""
        if due.value[0] != self.token:
            return []
        if due.what == "heartbeat":
            return list(self._heartbeats(now))
        self._is_checking = False
        return list(self._requests())

    def lose(self, who: str) -> None:
        """Give up a task executor or the JobMaster; what it needs or has counts no more."""
        self.executors.pop(who, None)
        self.monitors.pop(who, None)
        self.slots = {place: taken for place, taken in self.slots.items() if place[0] != who}
        self._asked = {place for place in self._asked if place[0] != who}
        if who == JOB_MASTER:
            self.job_leader, self.required = None, 0

    def _disconnect(self, who: str) -> Reply:
        """Return the word that somebody was given up, so that it registers anew if it lives."""
        return Reply(RESOURCE_MANAGER, who, "disconnect", (self.token,))

    def _report(self, now: int, who: str, slots: dict[int, bool]) -> list[Effect]:
        if who not in self.executors:
            return []
        self._answered(now, who)
        for slot, taken in slots.items():  # a request that is under way is newer than the report
            self.slots[who, slot] = taken or (who, slot) in self._asked
        return list(self._check_later(now))

    def _answered(self, now: int, who: str) -> None:
        if who in self.monitors:
            self.monitors[who].answer(now)

    def _missing(self) -> int:
        return self.required - sum(self.slots.get(place, False) for place in self._places)

    def _check_later(self, now: int) -> Iterator[Effect]:
        if not self._is_checking and self._missing() > 0:
            self._is_checking = True
            yield After(now + self._check_delay, RESOURCE_MANAGER, "check", (self.token,))

    def _requests(self) -> Iterator[Effect]:
        """Ask for free slots, as many as are missing; each counts as taken from now on."""
        for place in self._places:
            if self._missing() > 0 and self.slots.get(place) is False:
                self.slots[place] = True
                self._asked.add(place)
                args = place[1], self.job_leader
                size = SIZES[Name.REQUEST_SLOT]
                yield Call(RESOURCE_MANAGER, place[0], Name.REQUEST_SLOT, self.token, size, args)

    def _heartbeats(self, now: int) -> Iterator[Effect]:
        for who, monitor in list(self.monitors.items()):
            if monitor.is_dead(now):
                self.lose(who)
                yield self._disconnect(who)
                continue
            size = ASKS_JOB_MASTER if who == JOB_MASTER else ASKS_TASK_MANAGER
            name, token = Name.HEARTBEAT_FROM_RESOURCE_MANAGER, self.token
            if who == JOB_MASTER:
                token = self.job_leader
            yield Call(RESOURCE_MANAGER, who, name, token, size, (self.token,))
        at = now + self._heartbeat.interval
        yield After(at, RESOURCE_MANAGER, "heartbeat", (self.token,))
