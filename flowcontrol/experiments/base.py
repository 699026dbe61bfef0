"""The scenario that an experiment varies."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.folders import Kind, OwnedFolder, open_owned
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Base, Given, Overrides, as_base
from flowcontrol.virtual import choose_round_us


def job_for(scenario: Scenario, source: str, clock: Clock = "virtual") -> Job:
    """Return the job of a scenario, laid out as a clock would.

    Raises ScenarioError if the clock does not emulate it; ``source`` is its name there.
    """
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, source)
    round_us = choose_round_us(scenario) if clock == "virtual" else None
    return build_physical_graph(scenario, round_us=round_us)


def varied_base(given: Given, overrides: Overrides = ()) -> Base:
    """Return the scenario to be varied.

    ``overrides``: changes for all variants: values by key, or ``KEY=VALUE`` each.

    Raises ScenarioError if the file cannot be read or has several jobs, or a change cannot be made.
    """
    base = as_base(given, overrides)
    if "jobs" in base.mapping:
        text = "several jobs: they cannot be varied yet; take a scenario with stages and edges"
        raise ScenarioError([Problem("jobs", text)], base.source)
    if base.mapping.get("scaling") is not None:
        text = "a controller changes the parallelism: remove scaling from what is varied"
        raise ScenarioError([Problem("scaling", text)], base.source)
    # Of many runs nobody reads the messages or the samples, and a system may have none.
    left_out = {"trace", "monitoring"}
    return replace(base, mapping={k: v for k, v in base.mapping.items() if k not in left_out})


def with_chosen_round(base: Base) -> Base:
    """Return a scenario without its ``round_ms``, so that the clock chooses."""
    return replace(base, mapping={k: v for k, v in base.mapping.items() if k != "round_ms"})


# --- The folder of an experiment: created, continued, replaced or refused.


def short_hash(text: str) -> str:
    """Return 64 bits of a text's SHA-256: of a million two are alike with a chance of 3e-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Paths:
    """Paths in the folder of an experiment."""

    root: Path  # Absolute: workers have other current folders

    @property
    def results(self) -> Path:
        """The Delta table with a row per run."""
        return self.root / "results"

    @property
    def notes(self) -> Path:
        """Notes of the workers for the driver; removed when the experiment is finished."""
        return self.root / ".notes"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def stop_file(self, run_id: str) -> Path:
        """Created to stop the workers of a run."""
        return self.notes / f"{run_id}.stop"


def open_experiment(
    root: Path | str,
    kind: Kind,
    described: dict[str, Any],
    *,
    named: bool,
    overwrite: bool,
    keeps_finished: bool,
    content: Callable[[Mapping[str, Any]], str],
) -> OwnedFolder:
    """Prepare the folder of an experiment.

    - ``described``: the experiment to run; one of equal identity (``kind.identity``) is continued.
    - ``named``: whether the user named the folder; other results in a named folder are not
      replaced.
    - ``keeps_finished``: whether a finished run of the same experiment is returned rather than
      repeated.

    Raises ScenarioError as :func:`~flowcontrol.folders.open_owned`.
    """

    def is_continued(found: Mapping[str, Any]) -> bool:
        is_same = found[kind.identity] == described[kind.identity] and not overwrite
        return is_same and (keeps_finished or not found["finished"])

    def why_kept(found: Mapping[str, Any]) -> str | None:
        if overwrite or (found["finished"] and not named):
            return None
        state = "a finished" if found["finished"] else "an unfinished"
        unlike = ""
        is_other = found[kind.identity] != described[kind.identity]
        if is_other and content(found) == content(described):
            unlike = " with other values in its scenario, or begun under other rules"
        return (
            f"{root} holds {state} {kind.noun} {content(found)}{unlike}: name another folder, or "
            "replace it with --overwrite"
        )

    return open_owned(root, kind, described, is_continued=is_continued, why_kept=why_kept)
