"""The graphs of a scenario, printed and written; nothing is run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.deployment.deploy import Deployment, deployment_of
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, open_anew
from flowcontrol.report.deployment import describe_deployment, sentence
from flowcontrol.report.deployment_page import deployment_page
from flowcontrol.report.result import Result, print_text
from flowcontrol.scenario.given import Given, Overrides, as_base

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

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

    Returns shows itself; ``graphs.json`` and ``report.html`` are written. Raises ScenarioError if
    the scenario is refused, for too few slots among others, or the folder is.

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
