"""One system, run on a scenario: the same file with another ``system``, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from pydantic import TypeAdapter

from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.compare.figures import Compared, figures_of
from flowcontrol.experiments.compare.limits import job_limits
from flowcontrol.experiments.compare.starving import Starved, find_starved
from flowcontrol.experiments.executor import Simulate, Work, judging_clock
from flowcontrol.experiments.folder import Paths
from flowcontrol.files import write_atomically
from flowcontrol.layout.job import Job
from flowcontrol.report.figures import thinned
from flowcontrol.report.rundata import RunData
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, Stage
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Base
from flowcontrol.scenario.system import PRESETS

if TYPE_CHECKING:
    import pandas as pd


LEFT_OUT: Final = "run without checkpoints, which need barriers"
"""What is said of a system that runs a scenario as far as it can."""

_INTERVAL: Final = "execution.checkpointing.interval"


def suited(base: Base, system: str) -> Base:
    """Return a scenario without its checkpoints if a system has no barriers for them."""
    options = base.mapping.get("options")
    takes = {"savepoints"} & base.mapping.keys()
    if isinstance(options, Mapping):
        takes |= {_INTERVAL} & options.keys()
    if PRESETS[system].barriers or not takes:
        return base
    mapping = {key: value for key, value in base.mapping.items() if key not in takes}
    if isinstance(options, Mapping):
        mapping["options"] = {key: value for key, value in options.items() if key not in takes}
    return replace(base, mapping=mapping)


def scenario_of(base: Base, system: str) -> Scenario:
    """Return a scenario under another system, without checkpoints if that has no barriers.

    The latency of records from a log counts from their arrival there, whatever the scenario says:
    some systems read it in batches, and what waits for the next one is waiting all the same.

    Raises ScenarioError if the system does not go with it.
    """
    scenario = suited(base, system).scenario([(("system",), system)])
    stages = (
        stage.model_copy(update={"latency_from": "arrival"}) if stage.reads_log else stage
        for stage in scenario.stages
    )
    return scenario.model_copy(update={"stages": tuple(stages)})


def check_one(base: Base, system: str, clock: Clock) -> Job:
    """Return the job of a system, laid out as its clock would.

    Raises ScenarioError if the clock does not emulate the system, or not with this scenario.
    """
    return job_for(scenario_of(base, system), base.source, clock)


def run_one(base: Base, system: str, clock: Clock, runner: Simulate | None = None) -> Outcome:
    """Run one system.

    ``runner``: runs a scenario; by default the virtual clock.

    Returns a refused or failed run has a reason and no figures.
    """
    try:
        job = check_one(base, system, clock)
    except ScenarioError as error:
        return Outcome(system, "refused", refusal(error))
    try:
        found = _outcome(system, job, (runner or judging_clock())(job.scenario))
        return replace(found, reason="" if suited(base, system) is base else LEFT_OUT)
    except Exception as error:
        return Outcome(system, "failed", f"{type(error).__name__}: {error}")


def refusal(error: ScenarioError) -> str:
    """Return the problems of a refused scenario in one line."""
    return "; ".join(map(str, error.problems))


def _outcome(system: str, job: Job, run: Run) -> Outcome:
    from flowcontrol.kernel.compiled import is_compiled

    limits = job_limits(job)
    return Outcome(
        system,
        "ran",
        figures=figures_of(run, job.scenario, limits),
        lines=_lines(run.tables, job.scenario),
        starved=tuple(find_starved(run.tables, job, limits)),
        rounds=run.rounds,
        round_ms=run.round_us / 1000,
        wall_s=run.wall_s,
        is_compiled=is_compiled(),
    )


def _lines(tables: Tables, scenario: Scenario) -> Lines:
    data = RunData.of(tables, scenario)
    t_s, emitted = _rate(data.stages, scenario.sources, "rate_out")
    return Lines(
        t_s,
        emitted,
        _rate(data.stages, scenario.sinks, "rate_in")[1],
        thinned(summed(data.channels, "in_flight_records"), "in_flight_records")[1],
    )


def _rate(
    rows: pd.DataFrame, stages: Sequence[Stage], column: str
) -> tuple[list[float], list[float]]:
    names = [stage.name for stage in stages]
    return thinned(summed(rows[rows["stage"].isin(names)], column), column)


@dataclass(frozen=True)
class Lines:
    """The series of a run's chart; each has a value per time."""

    t_s: list[float]  # Samples (s)
    # What all sources emitted and all sinks took up since the sample before (records/s).
    produced: list[float]
    consumed: list[float]
    in_flight: list[float]  # Levels, all channels together (records)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one system."""

    system: str  # Its name
    # Refused: the clock cannot run the system with this scenario.
    state: Literal["ran", "refused", "failed"]
    reason: str = ""  # Why it was refused or failed; of one that ran, what was left out
    figures: Compared | None = None  # figures, lines: of one that ran
    lines: Lines | None = None
    starved: tuple[Starved, ...] = field(default=())  # Receivers that starved
    rounds: int = 0  # That were run
    round_ms: float = 0.0  # Emulated time of each (ms)
    wall_s: float = 0.0  # Real time that it took (s)
    is_compiled: bool = True  # False if it was run without a compiler

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Return the outcome that :meth:`to_json` has written."""
        return TypeAdapter(cls).validate_json(text)


@dataclass(frozen=True)
class CompareWork(Work):
    """The work of a comparison; a chunk is the name of a system."""

    base: Base  # The scenario

    def run_chunk(self, number: int) -> int:
        """Run a system; return 1."""
        outcome = run_one(self.base, self.chunks[number], "virtual", self.simulate)
        write_outcome(self.paths, outcome)
        return 1


def write_outcome(paths: Paths, outcome: Outcome) -> None:
    """Write the outcome of a system for the driver."""
    write_atomically(paths.notes / f"{outcome.system}.json", outcome.to_json())


def read_outcomes(paths: Paths) -> dict[str, Outcome]:
    """Return the outcomes that workers have written, by system."""
    found = sorted(paths.notes.glob("[!.]*.json"))
    outcomes = (Outcome.from_json(path.read_text()) for path in found)
    return {outcome.system: outcome for outcome in outcomes}
