"""Changes of stages and edges that may help: how many subtasks, where, and which records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.advise.changes import Change, Path, Subject
from flowcontrol.graphs.stream import PARTITIONERS
from flowcontrol.report.numbers import percent

if TYPE_CHECKING:
    from flowcontrol.scenario import Edge, Scenario, Stage

MOST_PARALLELISM: Final = 1024
"""Subtasks of a stage that are proposed at most."""

_TARGET: Final = 0.8
"""Busy share that a new parallelism aims at, so that a stage does not limit at once again."""

_BUSY: Final = 0.7
"""Busy share from which more subtasks of a stage are tried."""

_IDLE: Final = 0.4
"""Busy share below which fewer subtasks are tried."""

_MOST_HELD: Final = 0.95
"""Blocked share of a source beyond which nobody can tell how much more it would emit."""


def parallelism_changes(subject: Subject) -> Iterator[Change]:
    """More subtasks where they are busy, fewer where they are not."""
    scenario, seen = subject.scenario, subject.seen
    for stage in scenario.stages:
        if stage.is_source or stage.external:
            continue  # it would have more to do, or shares what a service takes
        p, busy = stage.parallelism, seen.busiest[stage.name]
        if stage.name == seen.limits or busy > _BUSY:
            offered = 1 / (1 - min(seen.held_back, _MOST_HELD))
            needed = ceil(p * busy * offered / _TARGET)
            for count in sorted({p + 1, 2 * p, needed}):
                if p < count <= MOST_PARALLELISM:
                    yield _subtasks(
                        subject,
                        stage,
                        count,
                        f"its busiest subtask is busy {percent(busy)} of the time",
                    )
        elif p > 1 and busy < _IDLE:
            count = max(1, ceil(p * busy / _BUSY))
            yield _subtasks(
                subject,
                stage,
                count,
                f"its busiest subtask is busy only {percent(busy)} of the time",
            )


def _subtasks(subject: Subject, stage: Stage, count: int, why: str) -> Change:
    name = f"{count} subtask{'s' * (count != 1)} of {stage.name} instead of {stage.parallelism}"
    parallelism = subject.path(stage.name, "parallelism"), count
    keys = (parallelism, *_rates(subject, stage, count), *_places(subject, stage, count))
    keys += tuple(_not_forward(subject.scenario, stage))
    keyed = any(edge.partitioner == "hash" for edge in subject.scenario.inputs(stage.name))
    cautions = ["A hot key stays on one subtask."] if keyed else []
    if subject.stated(stage.name, "total_rate") is not None:
        cautions.append("Each subtask is taken to be as fast as now.")
    return Change("parallelism", name, keys, why, tuple(cautions))


def _rates(subject: Subject, stage: Stage, count: int) -> Iterator[tuple[Path, Any]]:
    """Yield the rates of another number of subtasks, where the file has more than one of all.

    A subtask keeps its rate, and a new one has the most frequent.
    """
    rates, total = (subject.stated(stage.name, key) for key in ("service_rate", "total_rate"))
    if total is not None:
        share = count / stage.parallelism
        yield subject.path(stage.name, "total_rate"), _scaled(total, share)
    elif isinstance(rates, list) and stage.service_rate is not None and not _is_schedule(rates):
        usual, _ = Counter(stage.service_rate).most_common(1)[0]
        more = rates[stage.service_rate.index(usual)]
        kept = rates[:count]
        yield subject.path(stage.name, "service_rate"), kept + [more] * (count - len(kept))


def _scaled(total: Any, share: float) -> Any:
    """Return a total rate, or the schedule of one, times a share."""
    if isinstance(total, list):
        return [{**phase, "rate": phase["rate"] * share} for phase in total]
    return total * share


def _places(subject: Subject, stage: Stage, count: int) -> Iterator[tuple[Path, Any]]:
    """Yield where another number of subtasks are, if the file states it: new ones go on in turn."""
    if subject.stated(stage.name, "placement") is not None:
        managers, kept = subject.scenario.cluster.task_managers, list(stage.placement[:count])
        new = [(kept[0] + index) % managers for index in range(len(kept), count)]
        yield subject.path(stage.name, "placement"), kept + new


def _not_forward(scenario: Scenario, stage: Stage) -> Iterator[tuple[Path, Any]]:
    """Yield another partitioner for edges that need equal parallelism, as Flink chooses it."""
    for index, edge in enumerate(scenario.edges):
        if stage.name in {edge.sender, edge.receiver} and edge.partitioner == "forward":
            yield ("edges", index, "partitioner"), "rebalance"


def _is_schedule(rates: list[Any]) -> bool:
    """Tell whether a list is one schedule for all subtasks."""
    return all(isinstance(rate, dict) for rate in rates)


def partitioner_changes(subject: Subject) -> Iterator[Change]:
    """Another way to spread records over an edge, where the edge has one to choose."""
    scenario = subject.scenario
    for index, edge in enumerate(scenario.edges):
        for partitioner, why, cautions in _others(scenario, edge):
            name = f"{edge.name} by {partitioner} instead of {edge.partitioner}"
            keys = ((("edges", index, "partitioner"), partitioner), *_without(index, edge))
            yield Change("partitioner", name, keys, why, cautions)


def _others(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if edge.chain or edge.partitioner not in PARTITIONERS:
        return
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    if edge.partitioner == "hash":
        if receiver.window is None and receiver.state is None:
            yield (
                "rebalance", "every subtask gets as many records",
                ("Only if the receiver does not need the records of a key together.",),
            )  # fmt: skip
    elif edge.partitioner in {"rescale", "forward"}:
        yield "rebalance", "every subtask gets as many records", ()
    elif edge.partitioner in {"rebalance", "shuffle"}:
        even = sender.parallelism % receiver.parallelism == 0
        if even or receiver.parallelism % sender.parallelism == 0:
            yield "rescale", "fewer channels, so more buffers each or less memory", ()


def _without(index: int, edge: Edge) -> Iterator[tuple[Path, Any]]:
    """Yield what takes away what only the old partitioner had."""
    for key in ("key_weights", "key_distribution", "channel_weights"):
        if getattr(edge, key, None):
            yield ("edges", index, key), None


def placement_changes(subject: Subject) -> Iterator[Change]:
    """The stage that limits on a task manager of its own; a receiver beside its sender."""
    scenario, seen = subject.scenario, subject.seen
    if scenario.operators or scenario.jobs:
        return
    limits = seen.limits
    if limits is not None:
        stage = scenario.stage(limits)
        others = {m for s in scenario.stages if s.name != limits for m in s.placement}
        if others & set(stage.placement):
            new = scenario.cluster.task_managers
            path = subject.path(limits, "placement")
            keys = ((("cluster", "task_managers"), new + 1), (path, [new] * stage.parallelism))
            name = f"{limits} on a task manager of its own"
            yield Change("placement", name, keys, "others share its task managers")
    managers = scenario.cluster.task_managers
    together = {s.name: [i % managers for i in range(s.parallelism)] for s in scenario.stages}
    moved = [s for s in scenario.stages if list(s.placement) != together[s.name]]
    if moved:
        own = ((subject.path(s.name, "placement"), together[s.name]) for s in moved)
        name = "subtasks of the same number on one task manager"
        yield Change("placement", name, tuple(own), "as slot sharing places them")
    for edge in scenario.edges:
        sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
        is_even = sender.parallelism == receiver.parallelism
        if is_even and sender.placement != receiver.placement:
            path = subject.path(receiver.name, "placement")
            name = f"{receiver.name} on the task managers of {sender.name}"
            why = "what stays on a task manager crosses no network"
            yield Change("placement", name, ((path, list(sender.placement)),), why)


def slot_changes(subject: Subject) -> Iterator[Change]:
    """An operator that limits in slots of its own."""
    scenario, seen = subject.scenario, subject.seen
    if scenario.operators and seen.limits is not None:
        path = subject.path(seen.limits, "slot_group")
        name = f"a slot sharing group of its own for {seen.limits}"
        why = "it then shares no slot"
        yield Change("slots", name, ((path, f"{seen.limits}-own"),), why)
