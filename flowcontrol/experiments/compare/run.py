"""The plan of a comparison, and one system run: the same scenario with another ``system``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import TypeAdapter

from flowcontrol.analysis.figures import Figures, values_of
from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.analysis.producer_rates import PiledUp, Reaction, Response, reaction_of
from flowcontrol.analysis.run_view import RunView
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import Paths, job_for, short_hash, varied_base
from flowcontrol.experiments.compare.limits import LimitPhase, job_limits
from flowcontrol.experiments.compare.starving import Starved, find_starved
from flowcontrol.experiments.executor import Simulate, Work, judging_clock
from flowcontrol.files import write_atomically
from flowcontrol.layout.job import Job
from flowcontrol.report.figures import thinned
from flowcontrol.report.rundata import RunData
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, Stage
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Base, Given, Overrides, Texts, as_texts
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.system import ALIASES, PRESETS
from flowcontrol.version import OF_FIGURES, rules_version

if TYPE_CHECKING:
    import pandas as pd


# --- The plan of a comparison: a scenario, a clock and systems.


@dataclass(frozen=True)
class Comparison:
    """The plan of a comparison."""

    base: Base  # The scenario; its own system is ignored
    clock: Clock  # Which clock runs it
    systems: tuple[str, ...]  # Names of presets, each once
    scenario: Scenario  # The scenario under the first system for which it is valid

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def identity(self) -> str:
        """Hash of all that decides the results."""
        canonical: dict[str, Any] = {**self.scenario.canonical(), "system": None}
        text = json.dumps([rules_version(*OF_FIGURES), self.clock, sorted(self.systems), canonical])
        return short_hash(text)


def read_systems(names: Texts | None) -> tuple[str, ...]:
    """Return the named systems; by default all presets.

    ``names``: names of presets, or other names of theirs; in a text with commas between them.

    Returns each once, in the order given. Raises ScenarioError if one is unknown or repeated.
    """
    if names is None:
        return tuple(PRESETS)
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    problems = []
    found: list[str] = []
    for name in names:
        system = ALIASES.get(name, name)
        if system not in PRESETS:
            problems.append(Problem("--systems", known(name, [*PRESETS, *ALIASES], "system")))
        elif system in found:
            problems.append(Problem("--systems", f"{name!r} is repeated: name it once"))
        else:
            found.append(system)
    if not names:
        problems.append(Problem("--systems", "names no system: name one, or leave it out"))
    if problems:
        raise ScenarioError(problems, "command")
    return tuple(found)


def plan_comparison(
    scenario: Given,
    *,
    systems: Texts | None = None,
    clock: Clock = "virtual",
    overrides: Overrides = (),
) -> Comparison:
    """Read the plan of a comparison.

    On the virtual clock each system runs in rounds of the length that suits it, unless a change
    states ``round_ms``: the scenario's own is made for Flink's buffers, and a small window would be
    slow because of it alone.

    - ``systems``: names of presets; by default all of them.
    - ``overrides``: changes of the scenario for all systems: values by key, or ``KEY=VALUE`` each.

    Its scenario is valid under some system; refusals of the clock are checked later. Raises
    ScenarioError if the scenario is valid under no system, or an argument is wrong.
    """
    names = read_systems(systems)
    changes = as_texts(overrides)
    if clock == "virtual" and not any(text.startswith("round_ms=") for text in changes):
        changes.append("round_ms=null")
    base = varied_base(scenario, changes)
    first: ScenarioError | None = None
    for system in dict.fromkeys(("flink", *names)):
        try:
            found = base.scenario([(("system",), system)])
        except ScenarioError as error:
            first = first or error
        else:
            return Comparison(base, clock, names, found)
    raise first or ScenarioError([Problem("--systems", "names no system")], "command")


# --- The figures of a run in a comparison: numbers, and what producers did at each change.


@dataclass(frozen=True)
class Compared(Figures):
    """The figures of a run."""

    changes: tuple[Response, ...] = ()  # What the producers did after each change of the limit
    # For each change that was not followed, by its position: where most piled up.
    piled_up: Mapping[int, PiledUp] = field(default_factory=dict)

    @property
    def slowdown(self) -> Reaction:
        """What the producers did after the falls of the limit that count."""
        return reaction_of(self.changes, is_slowdown=True)

    @property
    def release(self) -> Reaction:
        """What the producers did after the rises of the limit that count."""
        return reaction_of(self.changes, is_slowdown=False)


def figures_of(run: Run, scenario: Scenario, limits: Sequence[LimitPhase] | None) -> Compared:
    """Return the figures of a run, as ``docs/reference/figures.md`` defines them.

    ``limits``: the limit of the job; None: unknown.
    """
    view = RunView(scenario, run.tables, limits, run)
    return Compared(values_of(view, "compare"), view.changes, view.piled_up)


# --- One system, run on a scenario: the same file with another ``system``, and the outcome.


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

    A refused or failed run has a reason and no figures.
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
