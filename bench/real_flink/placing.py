"""Where Flink is asked to run each subtask: slot sharing groups, task managers, slots.

A channel crosses the network only between task managers, so the place of a subtask counts. Flink
takes no orders for a single subtask, but a slot sharing group may ask for something that only one
task manager has, and subtasks of one index share slots by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from flowcontrol.scenario import Scenario


@dataclass(frozen=True)
class Group:
    """A slot sharing group.

    Attributes
    ----------
    name : str
        Its name.
    task_manager : int or None
        The one that it is bound to; None: Flink chooses.
    """

    name: str
    task_manager: int | None = None


@dataclass(frozen=True)
class Deployment:
    """How a job is laid out on the cluster.

    Attributes
    ----------
    groups : mapping of str to Group
        By stage.
    slots : tuple of int
        Slots of each task manager.
    """

    groups: Mapping[str, Group]
    slots: tuple[int, ...]

    @property
    def are_placed(self) -> bool:
        """Whether groups are bound to task managers."""
        return any(group.task_manager is not None for group in self.groups.values())


def deployment(scenario: Scenario) -> Deployment:
    """Return the layout that is nearest to the placement of a scenario.

    Notes
    -----
    Operators, and stages whose subtasks of one index are all on one task manager, share slots as
    Flink does by itself. Stages that are whole on a task manager are bound to it. Anything else is
    left to Flink; `placement_of` tells afterwards what came of it.
    """
    placed = {stage.name: tuple(stage.placement or ()) for stage in scenario.stages}
    heads = {stage.name: head_of(scenario, stage.name) for stage in scenario.stages}
    managers = range(scenario.cluster.task_managers)
    if scenario.operators:
        own = {operator.name: operator.slot_group or "default" for operator in scenario.operators}
        slots = scenario.cluster.slots or scenario.options.task_slots or 1
        groups = {name: Group(own[heads[name]]) for name in placed}
        return Deployment(groups, (slots,) * len(managers))
    if all(len(set(places)) == 1 for places in placed.values()):
        groups = {name: Group(heads[name], places[0]) for name, places in placed.items()}
        used = Counter(n for name, places in placed.items() if heads[name] == name for n in places)
        return Deployment(groups, tuple(max(used[manager], 1) for manager in managers))
    longest = max(placed.values(), key=len)
    per_manager = Counter(longest)
    if len(set(per_manager.values())) == 1 and all(
        places == longest[: len(places)] for places in placed.values()
    ):
        groups = dict.fromkeys(placed, Group("default"))
        return Deployment(groups, (per_manager[longest[0]],) * len(per_manager))
    used = Counter(n for name, places in placed.items() if heads[name] == name for n in places)
    groups = {name: Group(heads[name]) for name in placed}
    return Deployment(groups, (max(used.values()),) * len(managers))


def head_of(scenario: Scenario, name: str) -> str:
    """Return the stage whose task a stage runs in: itself, unless it is chained."""
    for edge in scenario.inputs(name):
        if edge.chain:
            return head_of(scenario, edge.sender)
    return name


def head_of_vertex(name: str) -> str:
    """Return the first stage of a vertex, such as ``Source: a -> (b, c)``."""
    return name.removeprefix("Source: ").split(" -> ")[0]
