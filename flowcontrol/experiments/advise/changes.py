"""A change of a scenario, and what the choice of changes depends on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flowcontrol.scenario.problems import key_path

if TYPE_CHECKING:
    from flowcontrol.scenario import Scenario

Path = tuple[str | int, ...]
"""A key of a scenario: keys, names of stages and positions."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a scenario."""

    # What is changed, such as ``parallelism``; of one kind at most one change is made at a time.
    kind: str
    name: str  # What it does, in a few words
    keys: tuple[tuple[Path, Any], ...]  # Keys with their new values, plain JSON
    why: str  # What suggests it
    cautions: tuple[str, ...] = ()  # What it takes besides, a sentence each

    @property
    def caution(self) -> str:
        """What it takes besides; empty if nothing."""
        return " ".join(self.cautions)

    @property
    def document(self) -> dict[str, Any]:
        """The keys as text, with their values."""
        return {key_path(list(path)): value for path, value in self.keys}

    @property
    def text(self) -> str:
        """The keys in one text: equal changes have equal ones."""
        return json.dumps(self.document, sort_keys=True)

    def on_managers(self, count: int) -> Change:
        """Return the change with so many task managers."""
        key = (("cluster", "task_managers"), count)
        return replace(self, name=f"{self.name}, on {count} task managers", keys=(*self.keys, key))

    def joined(self, other: Change, why: str) -> Change:
        """Return both changes in one."""
        return Change(
            f"{self.kind}+{other.kind}",
            f"{self.name}; {other.name}",
            self.keys + other.keys,
            why,
            tuple(dict.fromkeys((*self.cautions, *other.cautions))),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run shows of a job, as far as changes depend on it."""

    limits: str | None  # The stage that limits
    busiest: Mapping[str, float]  # Busy share of the busiest subtask of each stage, 0 to 1
    # Share of time for which the most blocked source was, while any was at all; or of what was
    # emitted at the end, what filled buffers that are not full yet, if that is more.
    held_back: float


@dataclass(frozen=True, slots=True)
class Subject:
    """A scenario whose changes are sought."""

    scenario: Scenario  # Read and checked
    # The same as its file has it: what is stated there must be changed with what depends on it.
    mapping: Mapping[str, Any]
    seen: Seen  # What its run shows

    def path(self, stage: str, key: str) -> Path:
        """Return the path of a key of a stage or operator."""
        return ("operators" if self.scenario.operators else "stages", stage, key)

    def stated(self, stage: str, key: str) -> Any:
        """Return what the file states for a key of a stage or operator; None if nothing."""
        kind = "operators" if self.scenario.operators else "stages"
        return next(one.get(key) for one in self.mapping[kind] if one["name"] == stage)
