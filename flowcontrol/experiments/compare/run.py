"""The plan of a comparison, and one system run: the same scenario with another ``system``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import TypeAdapter

from flowcontrol.analysis.figures import Figures, values_of
from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame, summed
from flowcontrol.analysis.producer_rates import PiledUp, Reaction, Response, reaction_of
from flowcontrol.analysis.run_view import RunView
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import Paths, job_for, short_hash, varied_base
from flowcontrol.experiments.compare.limits import LimitPhase, job_limits
from flowcontrol.experiments.executor import Simulate, Work, judging_clock
from flowcontrol.files import write_atomically
from flowcontrol.layout.graph import JobEdge
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


# --- Starving receivers: idle although there are records for them.
#
# There are three reasons, and two of them are a matter of the system. Its records wait behind those
# of another receiver in something that both share on the way, a connection or a queue: then the job
# could carry them, and a system that keeps channels apart does. Or the system holds all sources
# back because of the other receiver: the job could carry them then, too. Or the task that feeds
# both waits for the other one, with the next record in its hand: then nothing that moves records
# between tasks can help, since the records are not made.


Cause = Literal["producer", "throttle", "road"]

LEAST_SHARE: Final = 0.9
"""A receiver that processes less than this share of what it could by itself starves."""


@dataclass(frozen=True)
class Starved:
    """A receiver that starved."""

    name: str  # Of the stage, with the subtask where there are several
    share: float  # What it took up, over what it could by itself
    limit_share: float  # The same at the limit of the job: what any system can give it at most
    idle: float  # Share of the time in which it had nothing to do
    # What waits for the other receiver: the task that feeds both, all sources, or what both share
    # on the way.
    cause: Cause
    feeder: str  # feeder, other: the task that feeds it, and the receiver that it waits behind
    other: str
    shared: str  # What both share on the way; empty for the other causes


def find_starved(tables: Tables, job: Job, limits: Sequence[LimitPhase] | None) -> list[Starved]:
    """Return the receivers that starved.

    ``limits``: the limit of the job; None: unknown.

    In the order of the job. A receiver that was blocked more than idle does not starve, nor does
    one that shares nothing with a full receiver.
    """
    if limits is None:
        return []
    stages = result_frame(tables, "stages")
    found = []
    for plan in job.stages:
        if plan.is_source:
            continue
        for subtask in range(plan.stage.parallelism):
            one = _starved(stages, job, limits, plan.name, subtask)
            found += [one] if one is not None else []
    return found


def _starved(
    stages: pd.DataFrame, job: Job, limits: Sequence[LimitPhase], stage: str, subtask: int
) -> Starved | None:
    rows = stages[(stages["stage"] == stage) & (stages["subtask"] == subtask)]
    able, at_limit = (_integral(limits, kind, stage, subtask) for kind in ("alone", "into"))
    if rows.empty or able < 1:
        return None
    share = float(rows["records_in"].iloc[-1]) / able
    idle = mean_over_time(rows, "idle_ms_per_s") / 1000
    blocked = mean_over_time(rows, "backpressured_ms_per_s") / 1000
    if share >= LEAST_SHARE or blocked >= idle:
        return None
    cause: Cause = "road" if job.scenario.system.throttle == "none" else "throttle"
    cause = "producer" if at_limit / able < LEAST_SHARE else cause
    feeder, other = _behind(job, limits, stage, subtask, cause)
    if not other:
        return None
    return Starved(
        task_name(job, stage, subtask), share, at_limit / able, idle, cause,
        feeder, other, _shared(job, stage, subtask) if cause == "road" else "",
    )  # fmt: skip


def _integral(limits: Sequence[LimitPhase], kind: str, stage: str, subtask: int) -> float:
    """Return the records that a subtask takes up over the run, at the limit or by itself."""
    return sum(
        float(getattr(phase, kind)[stage][subtask]) * (phase.end_s - phase.start_s)
        for phase in limits
    )


def task_name(job: Job, stage: str, subtask: int) -> str:
    """Return the name of a task: ``sink``, or ``workers [3]`` if there are several."""
    count = job.scenario.stage(stage).parallelism
    return stage if count == 1 else f"{stage} [{subtask}]"


def _behind(
    job: Job, limits: Sequence[LimitPhase], stage: str, subtask: int, cause: Cause
) -> tuple[str, str]:
    """Return the feeder, and the receiver longest full that shares what the cause is."""
    own = [(link, c) for link in job.stage(stage).inputs for c in link.incoming(subtask)]
    feeders = {(link.edge.sender, channel.sender) for link, channel in own}
    roads = {_road(job, link, channel.sender, subtask) for link, channel in own}
    rivals: dict[tuple[str, int], tuple[str, int]] = {}
    for link in job.links:
        for channel in link.channels:
            feeder = link.edge.sender, channel.sender
            road = _road(job, link, channel.sender, channel.receiver)
            is_rival = {"producer": feeder in feeders, "road": road in roads, "throttle": True}
            if is_rival[cause] and (link.edge.receiver, channel.receiver) != (stage, subtask):
                rivals.setdefault((link.edge.receiver, channel.receiver), feeder)
    full = {rival: _full_s(limits, *rival) for rival in rivals}
    first = min(feeders)
    other = max(full, key=lambda rival: full[rival], default=None)
    if other is None or full[other] <= 0:
        return task_name(job, *first), ""
    feeder = rivals[other] if cause == "producer" else first
    return task_name(job, *feeder), task_name(job, *other)


def _road(job: Job, link: JobEdge, sender: int, receiver: int) -> tuple[int, int]:
    """Return the pair of task managers between which a channel runs."""
    scenario = job.scenario
    here = scenario.stage(link.edge.sender).placement[sender]
    return here, scenario.stage(link.edge.receiver).placement[receiver]


def _shared(job: Job, stage: str, subtask: int) -> str:
    """Return what the channels into a subtask share with others, in words."""
    link = job.stage(stage).inputs[0]
    here, there = _road(job, link, link.incoming(subtask)[0].sender, subtask)
    return (
        f"task manager {here}" if here == there
        else f"the connection from task manager {here} to {there}"
    )  # fmt: skip


def _full_s(limits: Sequence[LimitPhase], stage: str, subtask: int) -> float:
    """Return for how long a subtask is full at the limit, s."""
    return sum(phase.end_s - phase.start_s for phase in limits if phase.full[stage][subtask])


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
