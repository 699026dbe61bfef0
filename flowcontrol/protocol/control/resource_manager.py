"""The resource manager: who is registered, and which slots are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.control import calls as c
from flowcontrol.protocol.control.endpoint import Endpoint, Heartbeats, check_token

CHECK_DELAY: Final = 50_000
"""From a change of requirements to the requests that follow, microseconds
(``slotmanager.requirement-check.delay``)."""

Place = tuple[str, int]
"""Endpoint of a task executor, and one of its slots."""


class ResourceManager(Endpoint):
    """A resource manager with its slot manager.

    ``ResourceManager``, ``DeclarativeSlotManager``. It registers a process once, however often
    that asks.

    - ``places``: the slots that it takes for the job, in this order: who decides that is
      :func:`flowcontrol.deployment.assign_slots`.
    - ``check_delay``: from a change of requirements to what follows, microseconds.
    - ``token``: fencing token; None: it is not the leader.
    - ``executors``: registered task executors, and the start of the process that has registered.
    - ``slots``: slots that were reported, and whether somebody has them.
    - ``required``: slots that the job has declared.
    - ``job_leader``: leader id of the JobMaster that is registered.
    """

    beat = c.Name.HEARTBEAT_FROM_RESOURCE_MANAGER

    def __init__(
        self,
        places: Sequence[Place],
        check_delay: int = CHECK_DELAY,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        super().__init__(c.RESOURCE_MANAGER, heartbeats)
        self._places, self._check_delay = places, check_delay
        self._begin(None)

    def _begin(self, token: str | None) -> None:
        self.token, self._is_checking = token, False
        self.executors: dict[str, int] = {}
        self.slots: dict[Place, bool] = {}
        self._asked_for: set[Place] = set()
        self.required = 0
        self.job_leader: str | None = None
        self.monitors = {}

    @property
    def identity(self) -> str | None:
        """Its token."""
        return self.token

    def lead(self, now: int, token: str) -> Iterator[c.Effect]:
        """Become the leader: nothing is known, and everybody registers anew."""
        self._begin(token)
        yield self._next_beat(now)

    def lose(self, who: str) -> None:
        """Give up a task executor or the JobMaster; what it needs or has counts no more."""
        self.executors.pop(who, None)
        self.monitors.pop(who, None)
        self.slots = {place: taken for place, taken in self.slots.items() if place[0] != who}
        self._asked_for = {place for place in self._asked_for if place[0] != who}
        if who == c.JOB_MASTER:
            self.job_leader, self.required = None, 0

    # ------------------------------------------------------------------ calls

    def _check(self, call: c.Call) -> None:
        check_token(c.RESOURCE_MANAGER, call.name, call.token, self.token)

    def register_task_executor(
        self, now: int, call: c.Call, start: int, number: int
    ) -> Iterator[c.Effect]:
        """Know a process, once."""
        if self.executors.get(call.source) != start:
            self.lose(call.source)
            self.executors[call.source] = start
            self.monitors[call.source] = self._heartbeat.monitor(now)
        yield c.Reply(c.RESOURCE_MANAGER, call.source, call.name, (self.token, number))

    def register_job_master(
        self, now: int, call: c.Call, leader: str, number: int
    ) -> Iterator[c.Effect]:
        """Know a JobMaster, once."""
        if self.job_leader != leader:
            self.job_leader, self.required = leader, 0
            self.monitors[c.JOB_MASTER] = self._heartbeat.monitor(now)
        yield c.Reply(c.RESOURCE_MANAGER, call.source, call.name, (self.token, number))

    def send_slot_report(
        self, now: int, call: c.Call, slots: Mapping[int, bool]
    ) -> Iterator[c.Effect]:
        """Learn which slots of a task executor somebody has."""
        who = call.source
        if who in self.executors:
            self.heartbeat_from_job_manager(now, call)
            for slot, taken in slots.items():  # a request that is under way is newer
                self.slots[who, slot] = taken or (who, slot) in self._asked_for
            yield from self._check_later(now)

    heartbeat_from_task_manager = send_slot_report

    def heartbeat_from_job_manager(self, now: int, call: c.Call) -> Iterator[c.Effect]:
        """Know that somebody lives."""
        if call.source in self.monitors:
            self.monitors[call.source].answer(now)
        return iter(())

    def declare_required_resources(
        self, now: int, call: c.Call, leader: str, count: int
    ) -> Iterator[c.Effect]:
        """Learn how many slots the registered JobMaster needs."""
        if leader != self.job_leader:
            raise ProtocolError(
                f"{c.RESOURCE_MANAGER} ignores {call.name} of JobMaster {leader}: the one "
                f"that is registered is {self.job_leader}"
            )
        self.required = count
        yield from self._check_later(now)

    def reply(self, now: int, reply: c.Reply) -> Iterator[c.Effect]:
        """Take the answer to a request for a slot, or notice of a call that was not executed."""
        if reply.name == c.Name.REQUEST_SLOT:
            self._asked_for.discard((reply.source, *reply.value[:1]))
        yield from super().reply(now, reply)
        if reply.error:
            yield from self._check_later(now)

    # ------------------------------------------------------------------ what is due

    def _asked(self, who: str) -> c.Call:
        leader = self.job_leader if who == c.JOB_MASTER else self.token
        return self._call(who, self.beat, leader, self.token)

    def _give_up(self, now: int, who: str) -> Iterator[c.Effect]:
        self.lose(who)  # it registers anew if it lives
        yield c.Reply(c.RESOURCE_MANAGER, who, "disconnect", (self.token,))

    def _missing(self) -> int:
        return self.required - sum(self.slots.get(place, False) for place in self._places)

    def _check_later(self, now: int) -> Iterator[c.Effect]:
        if not self._is_checking and self._missing() > 0:
            self._is_checking = True
            yield c.After(now + self._check_delay, c.RESOURCE_MANAGER, "check", (self.token,))

    def _due(self, now: int, due: c.After) -> Iterator[c.Effect]:
        """Ask for free slots, as many as are missing; each counts as taken from now on."""
        self._is_checking = False
        for place in self._places:
            if self._missing() > 0 and self.slots.get(place) is False:
                self.slots[place] = True
                self._asked_for.add(place)
                yield self._call(
                    place[0], c.Name.REQUEST_SLOT, self.token, place[1], self.job_leader
                )
