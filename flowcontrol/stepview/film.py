"""A system's rounds within a time: what stands still, the state of each round, and the events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowcontrol.job.job import Job
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.stepview import names
from flowcontrol.stepview.acted import System, add_rules
from flowcontrol.stepview.happenings import Happening, happenings
from flowcontrol.stepview.shown import Shown, shown_state

if TYPE_CHECKING:
    from flowcontrol.job.round_state import RoundState


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
