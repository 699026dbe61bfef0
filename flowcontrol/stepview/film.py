"""A system's rounds within a time: states, rules that acted, and events to jump to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.layout.job import Job
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.stepview import shown as names
from flowcontrol.stepview.shown import Shown, shown_state

if TYPE_CHECKING:
    from flowcontrol.trace.round_state import RoundState


# --- Which rules have acted in a round: read off the counters of two states, not worked out again


Figures = dict[str, Any]
Acted = Callable[[Figures, Figures], bool]
"""Whether something has happened, by the figures of a thing after the round before and now."""


def _grew(name: str) -> Acted:
    return lambda old, now: bool(now[name] > old[name])


def _fell(name: str) -> Acted:
    return lambda old, now: bool(now[name] < old[name])


def _changed(name: str) -> Acted:
    return lambda old, now: bool(now[name] != old[name])


def _is_set(name: str) -> Acted:
    return lambda old, now: bool(now[name])


def _overtakes(old: Figures, now: Figures) -> bool:
    return bool(now["persisted"] > 0 and now["persisted"] != old["persisted"])


def _waits(old: Figures, now: Figures) -> bool:
    return bool(now["credit"] == 0 and now["backlog"] > 0)


def _is_empty(pool: Figures) -> bool:
    return bool(pool["free"] == 0 and pool["in_use"] >= pool["size"] > 0)


_OF_RECORDS: Final[Mapping[str, Acted]] = {
    "send_records": _grew("sent"),
    "grant": _grew("announced"),
    "no_grant": _waits,
}
_OF_TCP: Final[Mapping[str, Acted]] = {"tcp_write": _grew("sent"), "receive": _grew("arrived")}
_OF_CREDITS: Final[Mapping[str, Acted]] = {
    "send": _grew("sent"),
    "no_credit": lambda old, now: _waits(old, now) and not now["is_blocked"],
    "hear_credit": _grew("heard"),
    "announce": _grew("announced"),
    "wait_float": _is_set("is_waiting"),
    "float": _grew("floating_held"),
    "receive": _grew("arrived"),
}
_OF_BARRIERS: Final[Mapping[str, Acted]] = {
    "block": _grew("is_blocked"),
    "resume": _fell("is_blocked"),
    "overtake_out": _overtakes,
    "overtake_in": _grew("is_overtaken"),
}
_OF_POOL: Final[Mapping[str, Acted]] = {
    "request": _grew("in_use"),
    "release": _fell("in_use"),
    "overdraft": lambda old, now: now["overdraft"] > 0,
    "unavailable": lambda old, now: _is_empty(now),
    "quota": lambda old, now: now.get("at_quota", 0) > 0,
    "resize": _changed("size"),
}
_OF_TASK: Final[Mapping[str, Acted]] = {
    "align": _is_set("is_aligning"),
    "snapshot": _grew("checkpoint"),
    "watermark": _changed("watermark_ms"),
    "stopped": _is_set("is_stopped"),
    "slowed": lambda old, now: (
        not now["is_stopped"] and (now["gap_ns"] > 0 or now["may_emit"] >= 0)
    ),
    "holds": _is_set("holds_senders"),
}


def _rules_of_channels(job: Job) -> dict[str, Mapping[str, Acted]]:
    """Return the rules of each channel: those of its transport, none of one that is local."""
    counts_records = job.record_transport is not None
    own = _OF_TCP if job.scenario.system.transport == "tcp" else _OF_CREDITS
    remote = _OF_RECORDS if counts_records else own
    first: dict[str, Acted] = {"finish": _grew("released")}
    last = _OF_BARRIERS if counts_records else {"recycle": _grew("consumed"), **_OF_BARRIERS}
    local: dict[str, Acted] = {"local": lambda old, now: True}
    return {
        one["name"]: {**first, **(local if one["is_local"] else remote), **last}
        for one in _channels(job)
    }


def add_rules(
    before: Shown | None,
    now: Shown,
    of_channels: Mapping[str, Mapping[str, Acted]],
    outputs: Mapping[str, Sequence[str]],
) -> None:
    """Give everything in a state the ``rules`` that have acted on it in its round.

    - ``before``: the state of the round before; None of the first one, in which nothing is known to
      act.
    - ``now``: changed in place: each task, channel, gate and partition gets names of
      ``rules.yaml``.
    - ``of_channels``: the rules of each channel.
    - ``outputs``: the result partitions of each task.
    """
    old = before or now
    for name, channel in now["channels"].items():
        channel["rules"] = _acting(of_channels[name], old["channels"][name], channel)
    for kind in ("gates", "partitions"):
        for name, pool in now[kind].items():
            pool["rules"] = _acting(_OF_POOL, old[kind][name], pool)
    for name, task in now["tasks"].items():
        is_hard = any(now["partitions"][part]["left_bytes"] > 0 for part in outputs[name])
        acting = _acting(_OF_TASK, old["tasks"][name], task)
        task["rules"] = [*_work_of(task, is_hard=is_hard), *acting]


def _acting(rules: Mapping[str, Acted], old: Figures, now: Figures) -> list[str]:
    return [name for name, acted in rules.items() if acted(old, now)]


def _work_of(now: Figures, *, is_hard: bool) -> Iterator[str]:
    if now["blocked_us"] > 0:
        yield "hard" if is_hard else "soft"
    elif now["busy_us"] > 0:
        yield "work"
    elif now["idle_us"] > 0 and now["is_running"]:
        yield "starved"


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
    """Something that begins in a round."""

    kind: str  # One of ``KINDS``
    name: str  # Of what: a channel, pool, task or connection
    text: str  # What happened to it


def _loses_credit(old: Figures, now: Figures) -> bool:
    return bool(now["credit"] == 0 < old["credit"])


def _empties(old: Figures, now: Figures) -> bool:
    return _is_empty(now) and not _is_empty(old)


def _is_blocked(old: Figures, now: Figures) -> bool:
    return bool(now["blocked_us"] > 0 and old["blocked_us"] == 0)


_OVERTAKES: Final = "{name}: a barrier overtakes {persisted:,} bytes at the sender"
_ABOVE: Final = "connection {name}: above its high water mark"
_EVENTS: Final[Sequence[tuple[str, str, Acted, str]]] = (
    ("channels", "credit", _loses_credit, "{name}: credit 0, {backlog} wait"),
    ("channels", "barrier", _overtakes, _OVERTAKES),
    ("channels", "barrier", _grew("is_overtaken"), "{name}: a barrier overtakes at the receiver"),
    ("partitions", "pool", _empties, "{name}: result partition, none of {size} is free"),
    ("gates", "pool", _empties, "{name}: floating buffers, none of {size} is free"),
    ("tasks", "aligning", _grew("is_aligning"), "{name}: the first barrier is in"),
    ("tasks", "blocked", _is_blocked, "{name}: blocked by its output"),
    ("tasks", "throttle", _grew("is_stopped"), "{name}: the throttle stops it"),
    ("tasks", "throttle", _grew("holds_senders"), "{name}: it stops its senders"),
    ("tasks", "failure", _grew("is_running"), "{name}: runs"),
    ("tasks", "failure", _fell("is_running"), "{name}: does not run any more"),
    ("connections", "connection", _fell("auto_read"), "connection {name}: not read any more"),
    ("connections", "connection", _fell("is_writable"), _ABOVE),
)
"""Kind of thing, kind of event, whether it begins, and its text with figures of the thing."""


def happenings(before: Shown, now: Shown) -> Iterator[Happening]:
    """Yield what has begun between two states of a job, one round after the other."""
    for things, events in groupby(_EVENTS, key=itemgetter(0)):
        own = list(events)
        for name, figures in now[things].items():
            for _, kind, begins, text in own:
                if begins(before[things][name], figures):
                    yield Happening(kind, name, text.format(name=name, **figures))


# --- A system's rounds within a time: what stands still, the state of each round, and the events


@dataclass(frozen=True)
class Film:
    """The rounds of one system."""

    system: str  # Its name
    job: Job  # The scenario under it, laid out
    states: list[Shown]  # Of the rounds from the first one shown to the last, without a gap
    events: list[tuple[int, Happening]]  # What begins, each with its round

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

    ``rounds``: the rounds to show, in order; before them, if there is one, that which came before.
    """
    rules, outputs = _rules_of_channels(job), _outputs(job)
    states: list[Shown] = []
    events: list[tuple[int, Happening]] = []
    before: Shown | None = None
    for state in rounds:
        shown = shown_state(job, state)
        add_rules(before, shown, rules, outputs)
        if state.number >= first:
            if before is not None:
                events += [(state.number, found) for found in happenings(before, shown)]
            states.append(shown)
        before = shown
    return Film(system, job, states, events)


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
    for plan in job.stages:
        before = [column[job.stage(link.edge.sender).name] for link in plan.inputs]
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
    return [
        {
            "name": names.channel_name(link.name, channel.sender, channel.receiver),
            "edge": link.name,
            "sender": names.task_name(job.stage(link.edge.sender).name, channel.sender),
            "receiver": names.task_name(job.stage(link.edge.receiver).name, channel.receiver),
            "gate": names.gate_name(link.name, channel.receiver),
            "partition": names.partition_name(link.name, channel.sender),
            "is_local": channel.is_local,
        }
        for link in job.links
        for channel in link.channels
    ]
