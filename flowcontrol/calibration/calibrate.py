"""From an input to a scenario, its run, and predicted beside observed, in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.calibration.comparing import Row, beside
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.predict import bottleneck, predict
from flowcontrol.calibration.wording import (
    assumption_lines,
    conclusion,
    contradiction_lines,
    figure_table,
)
from flowcontrol.calibration.writing import scenario_text
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, check_anew, open_anew
from flowcontrol.report.result import Result, print_text
from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario, parse_scenario

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

SCENARIO: Final = "scenario.yaml"
FIGURES: Final = "calibration.json"
RUN: Final = "run"
"""Folder of the scenario's run, inside that of the calibration."""

_KIND: Final = Kind("calibration", "calibrate.json", "calibration", frozenset({"is_own_place"}))


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """A scenario that was fitted to a job, and what its run says beside what the job said."""

    draft: Draft  # What was fitted: figures with their origins, contradictions, notes
    scenario: Scenario  # The fitted scenario
    run: RunResult  # Its run on the virtual clock
    rows: list[Row]  # Predicted beside observed
    bottleneck: str | None  # The stage that limits in the run
    path: Path  # Folder of ``scenario.yaml``, ``calibration.json`` and the run
    kind = "calibration of"

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @cached_property
    def sentence(self) -> str:
        """How many figures the scenario predicts."""
        return conclusion(self.draft, self.rows, self.bottleneck)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """As in ``calibration.json``."""
        draft = self.draft
        return {
            "name": self.name,
            "source": draft.source,
            "sentence": self.sentence,
            "bottleneck": {"observed": draft.bottleneck, "predicted": self.bottleneck},
            "figures": [one.to_json() for one in draft.figures if not one.is_assumed],
            "assumptions": [one.to_json() for one in draft.assumptions],
            "contradictions": [vars(one) for one in draft.contradictions],
            "notes": draft.notes,
            "compared": [row.to_json() for row in self.rows],
        }

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables of the run."""
        return dict(self.run.tables)

    def show(self, console: Console | None = None) -> None:
        """Print predicted beside observed, what is contradictory, and what is assumed."""
        from rich.console import Console as Terminal

        console = console or Terminal()
        console.print(figure_table(self.rows, console.width))
        for lines in (contradiction_lines(self.draft), self.draft.notes):
            if lines:
                print_text("\n".join([*lines, ""]), console)
        if lines := assumption_lines(self.draft):
            print_text("\n".join([*lines, ""]), console)
        print_text(self.sentence, console)
        print_text(
            f"scenario: {self.path / SCENARIO}\nfigures: {self.path / FIGURES}\n"
            f"run: {self.path / RUN / 'report.html'}",
            console,
        )


def check(draft: Draft) -> Scenario:
    """Return the scenario of a draft.

    Raises ScenarioError if what was fitted is not a scenario, or the virtual clock does not run it.
    """
    scenario = parse_scenario(draft.mapping, source=draft.source)
    job_for(scenario, "virtual")
    return scenario


def calibrate(
    draft: Draft, *, out: Path | str | None = None, overwrite: bool = False, quiet: bool = False
) -> Calibration:
    """Check a fitted scenario, run it on the virtual clock, and compare.

    - ``out``: folder of the results; default ``out/<name>-calibration``.
    - ``overwrite``: replace what ``out`` holds.
    - ``quiet``: show no progress.

    Returns shows itself; ``scenario.yaml``, ``calibration.json`` and the run are written. Raises
    ScenarioError if the scenario or the folder is refused. Nothing was written.
    """
    scenario = check(draft)
    root = Path("out", f"{scenario.name}-calibration") if out is None else out
    described = {_KIND.identity: draft.source}
    folder = open_anew(root, _KIND, described, named=out is not None, overwrite=overwrite)
    try:
        write_atomically(folder.root / SCENARIO, scenario_text(draft))
        run = emulate(folder.root / SCENARIO, out=folder.root / RUN, clock="virtual", quiet=quiet)
        found = compared(draft, scenario, run, Path(root))
        text = json.dumps(found.summary, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(folder.root / FIGURES, text + "\n")
        folder.mark(finished=True)
    finally:
        folder.close()
    return found


def check_folder(out: Path | str | None, *, overwrite: bool) -> None:
    """Refuse a folder that :func:`calibrate` would refuse, before a job is polled for minutes.

    Raises ScenarioError if it is refused.
    """
    if out is not None:
        check_anew(out, _KIND, overwrite=overwrite)


def compared(draft: Draft, scenario: Scenario, run: RunResult, path: Path) -> Calibration:
    """Compare a run with what the input of a draft says."""
    if draft.batches:
        from flowcontrol.calibration.predict_spark import predict_batches

        predicted = predict_batches(run.tables, draft)
        limiting = draft.bottleneck
    else:
        predicted = predict(run.tables, scenario, draft.warm_up_s)
        limiting = bottleneck(run.tables, scenario, draft.warm_up_s)
    return Calibration(draft, scenario, run, beside(draft.observed, predicted), limiting, path)
