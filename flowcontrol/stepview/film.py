"""A system's rounds within a time: states, rules that acted, and events to jump to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.layout.job import Job
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.stepview import shown as names
from flowcontrol.stepview.shown import Shown, shown_state

if TYPE_CHECKING:
    from flowcontrol.trace.round_state import RoundState


# --- Which rules have acted in a round: read off the counters of two states, not worked out again


Figures = dict[str, Any]


class System:
    """What of a system decides how its rules are called.

    Parameters
    ----------
    transport : str
        Its transport.
    counts_records : bool
        Whether that counts records rather than buffers.
    """

    def __init__(self, transport: str, counts_records: bool) -> None:
        self.is_tcp = transport == "tcp"
        self.counts_records = counts_records
        self.has_credit = transport == "credit"


def add_rules(
    before: Shown | None,
    now: Shown,
    system: System,
    local: set[str],
    outputs: Mapping[str, Sequence[str]],
) -> None:
    """Give everything in a state the ``rules`` that have acted on it in its round.

    Parameters
    ----------
    before : Shown or None
        The state of the round before; None of the first one, in which nothing is known to act.
    now : Shown
        Changed in place: each task, channel, gate and partition gets names of ``rules.yaml``.
    system : System
        Whose rules they are.
    local : set of str
        Names of channels between tasks of one task manager.
    outputs : mapping of str to sequence of str
        The result partitions of each task.
    """
    old = before or now
    for name, channel in now["channels"].items():
        channel["rules"] = list(_of_channel(old["channels"][name], channel, system, name in local))
    for kind in ("gates", "partitions"):
        for name, pool in now[kind].items():
            pool["rules"] = list(_of_pool(old[kind][name], pool))
    for name, task in now["tasks"].items():
        is_hard = any(now["partitions"][part]["left_bytes"] > 0 for part in outputs[name])
        task["rules"] = list(_of_task(old["tasks"][name], task, is_hard=is_hard))


def _of_channel(old: Figures, now: Figures, system: System, is_local: bool) -> Iterator[str]:
    def grew(name: str) -> bool:
        return bool(now[name] > old[name])

    waits = now["credit"] == 0 and now["backlog"] > 0
    if grew("released"):
        yield "finish"
    if is_local:
        yield "local"
    elif system.counts_records:
        yield from _of_records(grew, now)
    elif system.is_tcp:
        yield from ["tcp_write"] if grew("sent") else []
    else:
        yield from ["send"] if grew("sent") else []
        yield from ["no_credit"] if waits and not now["is_blocked"] else []
        yield from ["hear_credit"] if grew("heard") else []
        yield from ["announce"] if grew("announced") else []
        yield from ["wait_float"] if now["is_waiting"] else []
        yield from ["float"] if grew("floating_held") else []
    if not is_local and not system.counts_records:
        yield from ["receive"] if grew("arrived") else []
    if not system.counts_records and grew("consumed"):
        yield "recycle"
    yield from _of_barriers(old, now)


def _of_records(grew: Callable[[str], bool], now: Figures) -> Iterator[str]:
    if grew("sent"):
        yield "send_records"
    if grew("announced"):
        yield "grant"
    if now["backlog"] > 0 and now["credit"] == 0:
        yield "no_grant"


def _of_barriers(old: Figures, now: Figures) -> Iterator[str]:
    if now["is_blocked"] > old["is_blocked"]:
        yield "block"
    if now["is_blocked"] < old["is_blocked"]:
        yield "resume"
    if now["persisted"] > 0 and now["persisted"] != old["persisted"]:
        yield "overtake_out"
    if now["is_overtaken"] > old["is_overtaken"]:
        yield "overtake_in"


def _of_pool(old: Figures, now: Figures) -> Iterator[str]:
    if now["in_use"] > old["in_use"]:
        yield "request"
    if now["in_use"] < old["in_use"]:
        yield "release"
    if now["overdraft"] > 0:
        yield "overdraft"
    if now["free"] == 0 and now["in_use"] >= now["size"] > 0:
        yield "unavailable"
    if now.get("at_quota", 0) > 0:
        yield "quota"
    if now["size"] != old["size"]:
        yield "resize"


def _of_task(old: Figures, now: Figures, *, is_hard: bool) -> Iterator[str]:
    if now["blocked_us"] > 0:
        yield "hard" if is_hard else "soft"
    elif now["busy_us"] > 0:
        yield "work"
    elif now["idle_us"] > 0 and now["is_running"]:
        yield "starved"
    if now["is_aligning"]:
        yield "align"
    if now["checkpoint"] > old["checkpoint"]:
        yield "snapshot"
    if now["watermark_ms"] != old["watermark_ms"]:
        yield "watermark"
    if now["is_stopped"]:
        yield "stopped"
    elif now["gap_ns"] > 0 or now["may_emit"] >= 0:
        yield "slowed"
    if now["holds_senders"]:
        yield "holds"


# --- Events to jump to: what begins between two states, such as a channel that runs out of credit


KINDS: Final = {
    "credit": "credit 0",
    "pool": "a pool empties",
    "barrier": "a barrier overtakes",
    "aligning": "a task aligns",
    "connection": "a connection stops",
    "blocked": "a task is blocked",
    "throttle": "a source is stopped",
    "failure": "a task fails or comes back",
}
"""Kinds of events, as the page calls them, in the order of its list."""


class Happening(NamedTuple):
    """Something that begins in a round.

    Attributes
    ----------
    kind : str
        One of ``KINDS``.
    name : str
        Of what: a channel, pool, task or connection.
    text : str
        What happened to it.
    """

    kind: str
    name: str
    text: str


def happenings(before: Shown, now: Shown) -> Iterator[Happening]:
    """Yield what has begun between two states of a job, one round after the other."""
    for name, channel in now["channels"].items():
        yield from _happenings_of_channel(name, before["channels"][name], channel)
    for kind, what in (("partitions", "result partition"), ("gates", "floating buffers")):
        for name, pool in now[kind].items():
            if _is_empty(pool) and not _is_empty(before[kind][name]):
                yield Happening("pool", name, f"{name}: {what}, none of {pool['size']} is free")
    for name, task in now["tasks"].items():
        yield from _happenings_of_task(name, before["tasks"][name], task)
    for name, wire in now["connections"].items():
        yield from _of_connection(name, before["connections"][name], wire)


def _is_empty(pool: dict[str, Any]) -> bool:
    return bool(pool["free"] == 0 and pool["in_use"] >= pool["size"] > 0)


def _happenings_of_channel(
    name: str, old: dict[str, Any], now: dict[str, Any]
) -> Iterator[Happening]:
    if now["credit"] == 0 < old["credit"]:
        yield Happening("credit", name, f"{name}: credit 0, {now['backlog']} wait")
    if now["persisted"] > 0 and now["persisted"] != old["persisted"]:
        bytes_ = f"{now['persisted']:,} bytes at the sender"
        yield Happening("barrier", name, f"{name}: a barrier overtakes {bytes_}")
    if now["is_overtaken"] > old["is_overtaken"]:
        yield Happening("barrier", name, f"{name}: a barrier overtakes at the receiver")


def _happenings_of_task(name: str, old: dict[str, Any], now: dict[str, Any]) -> Iterator[Happening]:
    if now["is_aligning"] > old["is_aligning"]:
        yield Happening("aligning", name, f"{name}: the first barrier is in")
    if now["blocked_us"] > 0 and old["blocked_us"] == 0:
        yield Happening("blocked", name, f"{name}: blocked by its output")
    if now["is_stopped"] > old["is_stopped"]:
        yield Happening("throttle", name, f"{name}: the throttle stops it")
    if now["holds_senders"] > old["holds_senders"]:
        yield Happening("throttle", name, f"{name}: it stops its senders")
    if now["is_running"] != old["is_running"]:
        what = "runs" if now["is_running"] else "does not run any more"
        yield Happening("failure", name, f"{name}: {what}")


def _of_connection(name: str, old: dict[str, Any], now: dict[str, Any]) -> Iterator[Happening]:
    if now.get("auto_read", 1) < old.get("auto_read", 1):
        yield Happening("connection", name, f"connection {name}: not read any more")
    if now.get("is_writable", 1) < old.get("is_writable", 1):
        yield Happening("connection", name, f"connection {name}: above its high water mark")


# --- A system's rounds within a time: what stands still, the state of each round, and the events


@dataclass(frozen=True)
class Film:
    """The rounds of one system.

    Attributes
    ----------
    system : str
        Its name.
    job : Job
        The scenario under it, laid out.
    states : list of Shown
        Of the rounds from the first one shown to the last, without a gap.
    events : list of (int, Happening)
        What begins, each with its round.
    """

    system: str
    job: Job
    states: list[Shown]
    events: list[tuple[int, Happening]]

    @property
    def first(self) -> int:
        """The first round shown."""
        return int(self.states[0]["round"])

    def still(self) -> dict[str, Any]:
        """Return what does not change: what the job consists of, and what its rules are called."""
        scenario, job = self.job.scenario, self.job
        part, throttle = scenario.system.transport, scenario.system.throttle
        return {
            "name": self.system,
            "transport": part,
            "throttle": throttle,
            "section": TRANSPORT_PARTS[part].section,
            "throttle_section": THROTTLE_PARTS[throttle].section,
            "counts_records": job.record_transport is not None,
            "has_credit": part == "credit" or (job.record_transport is not None and job.has_grants),
            "round_us": job.round_us,
            "first": self.first,
            "latency_rounds": job.latency,
            "segment_bytes": scenario.options.segment_bytes,
            "managers": scenario.cluster.task_managers,
            "tasks": _tasks(job, self.states[0]),
            "channels": _channels(job),
        }


def film(system: str, job: Job, rounds: Iterator[RoundState], first: int) -> Film:
    """Return the film of a system.

    Parameters
    ----------
    system : str
        Its name.
    job : Job
        The scenario under it, laid out.
    rounds : iterator of RoundState
        The rounds to show, in order; before them, if there is one, that which came before.
    first : int
        The first one to show.
    """
    own = System(job.scenario.system.transport, job.record_transport is not None)
    local, outputs = _local(job), _outputs(job)
    states: list[Shown] = []
    events: list[tuple[int, Happening]] = []
    before: Shown | None = None
    for state in rounds:
        shown = shown_state(job, state)
        add_rules(before, shown, own, local, outputs)
        if state.number >= first:
            if before is not None:
                events += [(state.number, found) for found in happenings(before, shown)]
            states.append(shown)
        before = shown
    return Film(system, job, states, events)


def _local(job: Job) -> set[str]:
    return {
        names.channel_name(link.name, channel.sender, channel.receiver)
        for link in job.links
        for channel in link.channels
        if channel.is_local
    }


def _outputs(job: Job) -> dict[str, list[str]]:
    return {
        names.task_name(plan.name, index): [
            names.partition_name(link.name, index) for link in plan.outputs
        ]
        for plan, index in job.subtasks
    }


def _tasks(job: Job, state: Shown) -> list[dict[str, Any]]:
    """Return the tasks, senders before receivers, each with its column: 0 of a source."""
    column: dict[str, int] = {}
    owner = {member.stage.name: plan.name for plan in job.stages for member in plan.members}
    for plan in job.stages:
        before = [column[owner[link.edge.sender]] for link in plan.inputs]
        column[plan.name] = 1 + max(before, default=-1)
    outputs = _outputs(job)
    return [
        {
            "name": names.task_name(plan.name, index),
            "stages": [member.stage.name for member in plan.members],
            "column": column[plan.name],
            "manager": plan.stage.placement[index],
            "is_source": plan.is_source,
            "gates": [
                name
                for link in plan.inputs
                if (name := names.gate_name(link.name, index)) in state["gates"]
            ],
            "partitions": outputs[names.task_name(plan.name, index)],
        }
        for plan, index in job.subtasks
    ]


def _channels(job: Job) -> list[dict[str, Any]]:
    owner = {member.stage.name: plan.name for plan in job.stages for member in plan.members}
    return [
        {
            "name": names.channel_name(link.name, channel.sender, channel.receiver),
            "edge": link.name,
            "sender": names.task_name(owner[link.edge.sender], channel.sender),
            "receiver": names.task_name(owner[link.edge.receiver], channel.receiver),
            "gate": names.gate_name(link.name, channel.receiver),
            "partition": names.partition_name(link.name, channel.sender),
            "is_local": channel.is_local,
        }
        for link in job.links
        for channel in link.channels
    ]
