"""From an input to a scenario, its run, and predicted against observed figures, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.draft import Draft, Figure
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.predict import Row, beside, bottleneck, predict
from flowcontrol.calibration.writing import (
    assumption_lines,
    conclusion,
    contradiction_lines,
    figure_table,
    scenario_text,
)
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, check_anew, open_anew
from flowcontrol.report.result import Result, print_text
from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario, parse_scenario

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


# --- ``fit_scenario``: figures of a running job in, a scenario out.


class Fitted(NamedTuple):
    """A scenario, and where each of its figures comes from."""

    scenario: Scenario  # Read and checked
    # By the path of the key (``stages.sink.service_rate``): value, origin, estimate of the relative
    # error, and whether it is assumed.
    figures: dict[str, Figure]


def fit_scenario(
    flink_rest: str | Path | Mapping[str, Any] | Sequence[Any] | None = None,
    spark_progress: str | Path | Sequence[Any] | None = None,
) -> Fitted:
    """Fit a scenario to a running job's own figures.

    True rates are records over busy time; see ``docs/howto/calibrate.md``.

    - ``flink_rest``: polls of Flink's REST API: a file, ``{"polls": [...]}``, or the list; each
      poll a mapping of path to body.
    - ``spark_progress``: ``StreamingQueryProgress``: a file with one JSON object a line, or the
      list of objects.

    Returns the scenario and, by key, each figure's error and origin. Raises ScenarioError if the
    input is damaged, or does not hold what a scenario needs. Raises ValueError if none or both are
    given.
    """
    if (flink_rest is None) == (spark_progress is None):
        raise ValueError("fit_scenario takes flink_rest or spark_progress: give one of them")
    if flink_rest is not None:
        polls, source = read_dump(flink_rest)
        draft = fit_flink(read_job(polls, source))
    else:
        from flowcontrol.calibration.spark_progress import fit_progress

        draft = fit_progress(spark_progress)
    return fitted(draft)


def fitted(draft: Draft) -> Fitted:
    """Return a draft's scenario, checked, and its figures by key."""
    return Fitted(check(draft), {figure.key: figure for figure in draft.figures})


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

    The result displays itself; ``scenario.yaml``, ``calibration.json`` and the run are written.
    Raises ScenarioError if the scenario or the folder is refused. Nothing was written.
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
        from flowcontrol.calibration.spark_progress import predict_batches

        predicted = predict_batches(run.tables, draft)
        limiting = draft.bottleneck
    else:
        predicted = predict(run.tables, scenario, draft.warm_up_s)
        limiting = bottleneck(run.tables, scenario, draft.warm_up_s)
    return Calibration(draft, scenario, run, beside(draft.observed, predicted), limiting, path)
