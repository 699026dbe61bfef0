"""What a scenario needs, without a run: its network memory, its graphs and slots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.deployment.deploy import Deployment, deployment_of
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, open_anew
from flowcontrol.layout.plan import MemoryPlan, plan_memory
from flowcontrol.report.deployment_page import deployment_page
from flowcontrol.report.plan import describe_deployment, describe_plan, sentence, verdict
from flowcontrol.report.result import Result, print_text
from flowcontrol.scenario.given import Given, Overrides, as_base

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


@dataclass(frozen=True, repr=False)
class PlanResult(Result):
    """The network memory of a scenario.

    Attributes
    ----------
    memory : MemoryPlan
        What every gate and partition asks for and gets.
    stated : mapping
        Flink's options as the scenario states them.
    """

    memory: MemoryPlan
    stated: Mapping[object, object]
    path = None
    kind = "network memory of"

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.memory.scenario.name

    @property
    def failures(self) -> list[str]:
        """Flink's texts of everything that does not fit; empty if all does."""
        return self.memory.failures

    @cached_property
    def sentence(self) -> str:
        """Whether there are enough buffers."""
        there = self.memory.scenario.options.network_buffers
        return f"{there:,} buffers on a task manager: {verdict(self.memory)}."

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Buffers of a task manager: there are, required, wanted, by the classic rule."""
        memory = self.memory
        return {
            "scenario": self.name,
            "task_managers": memory.scenario.cluster.task_managers,
            "buffers": memory.scenario.options.network_buffers,
            "buffer_bytes": memory.scenario.options.segment_bytes,
            "required": memory.required,
            "wanted": memory.wanted,
            "rule": memory.rule,
            "failures": memory.failures,
            "sentence": self.sentence,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``grants``: a row per moment, gate or result partition; figures in buffers."""
        import pyarrow as pa

        rows = [
            {
                "at_s": moment.at_s,
                "task_manager": manager.manager,
                "edge": grant.demand.edge,
                "side": "in" if grant.demand.is_gate else "out",
                "subtask": grant.demand.subtask,
                "channels": grant.demand.channels,
                "required": grant.demand.required + grant.demand.unpooled,
                "wanted": _plus(grant.demand.maximum, grant.demand.unpooled),
                "granted": _plus(grant.granted, grant.demand.unpooled),
                "exclusive": grant.demand.unpooled if grant.demand.is_gate else None,
            }
            for moment in self.memory.moments
            for manager in moment.managers
            for grant in manager.grants
        ]
        return {"grants": pa.Table.from_pylist(rows)}

    def show(self, console: Console | None = None) -> None:
        """Print a table per task manager, the exact need, and the option to change."""
        print_text(describe_plan(self.memory, self.stated), console)


def plan(scenario: Given, *, overrides: Overrides = ()) -> PlanResult:
    """Work out what network buffers a scenario requires and gets; run nothing.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, or ``KEY=VALUE`` each.

    Returns
    -------
    PlanResult
        Its ``failures`` say what does not fit.

    Raises
    ------
    ScenarioError
        If the scenario is refused, or its transport has no network buffers.

    Examples
    --------
    >>> plan("conf/experiment.yaml").summary["required"]
    18
    """
    base = as_base(scenario, overrides)
    return PlanResult(plan_memory(base.scenario()), dict(base.mapping.get("options") or {}))


def _plus(buffers: int | None, more: int) -> int | None:
    return None if buffers is None else buffers + more


GRAPHS: Final = "graphs.json"
"""Name of the file with the four graphs."""

_KIND: Final = Kind("deployment", "deploy.json", "deployment", frozenset({"is_own_place"}))


@dataclass(frozen=True, repr=False)
class DeployResult(Result):
    """The graphs of a scenario, and the folder that they are in."""

    deployment: Deployment  # Stream graph, job graph, execution graph and slots
    path: Path  # Folder of ``graphs.json`` and ``report.html``
    kind = "graphs of"

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.deployment.name

    @cached_property
    def sentence(self) -> str:
        """How many operators become how many vertices, subtasks, channels and slots."""
        return sentence(self.deployment)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The four graphs, as in ``graphs.json``."""
        return self.deployment.to_json()

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``slots``: a row per subtask: vertex, subtask, task manager, slot, slot sharing group."""
        import pyarrow as pa

        rows = [
            {
                "vertex": name,
                "subtask": subtask,
                "task_manager": slot.task_manager,
                "slot": slot.slot,
                "slot_group": slot.group,
            }
            for slot in self.deployment.slots
            for name, subtask in slot.tasks
        ]
        return {"slots": pa.Table.from_pylist(rows)}

    def show(self, console: Console | None = None) -> None:
        """Print the four graphs, and where they are."""
        from rich.console import Console as Terminal

        console = console or Terminal()
        print_text(describe_deployment(self.deployment, console.width), console)
        print_text(f"\ngraphs: {self.path / GRAPHS}\npage: {self.report}", console)


def deploy(
    scenario: Given,
    *,
    overrides: Overrides = (),
    out: Path | str | None = None,
    overwrite: bool = False,
) -> DeployResult:
    """Work out Flink's graphs of a scenario and its slots; run nothing.

    - ``scenario``: a scenario, the mapping in its file, or the file. Of one with ``operators``
      rates and keys may be missing.
    - ``overrides``: changes of the scenario: values by key, or ``KEY=VALUE`` each.
    - ``out``: folder of the results; default ``out/<name>-graphs``.
    - ``overwrite``: replace what ``out`` holds.

    The result displays itself; ``graphs.json`` and ``report.html`` are written. Raises
    ScenarioError if the scenario is refused, for too few slots among others, or the folder is.

    Examples
    --------
    >>> deploy("conf/word-count.yaml").sentence  # doctest: +SKIP
    'word-count: 4 operators become 2 vertices, ...'
    """
    found = deployment_of(as_base(scenario, overrides))
    root = Path("out", f"{found.name}-graphs") if out is None else out
    described = {_KIND.identity: found.name}
    folder = open_anew(root, _KIND, described, named=out is not None, overwrite=overwrite)
    try:
        text = json.dumps(found.to_json(), indent=1, ensure_ascii=False)
        write_atomically(folder.root / GRAPHS, text + "\n")
        write_atomically(folder.root / "report.html", deployment_page(found))
        folder.mark(finished=True)
    finally:
        folder.close()
    return DeployResult(found, Path(root))
