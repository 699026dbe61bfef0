"""What a run that is slow or fails would be with one change, each tried on the virtual clock.

Changes that may help slow checkpoints, and the other guarantees of a job that fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoint_causes import timer_windows
from flowcontrol.analysis.checkpoints import checkpoint_summary, remedy_sentence
from flowcontrol.analysis.run_view import RunView
from flowcontrol.analysis.summary import rounded
from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.advise.adviser import Adviser
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.executor import shown_late
from flowcontrol.layout.job import Job
from flowcontrol.results.run import Run
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.given import as_base
from flowcontrol.topics.delivery import delivery_summary, shown_rows

if TYPE_CHECKING:
    import pyarrow as pa


# --- What would help a run on the virtual clock: changes that are quick to try, on its own kernel.


MOST_STEPS_OF_ADVICE: Final = 4_000_000
"""Rounds times subtasks and channels of a run that is tried: half a second at most."""


def add_advice(summary: dict[str, Any], job: Job, tables: Mapping[str, pa.Table]) -> None:
    """Put what would help into the summary of a run.

    Changes that need a larger kernel than the run had, such as debloating, are left to
    ``flowcontrol advise``: to compile one takes longer than most runs.

    ``summary``: from :func:`flowcontrol.analysis.summarise`; gets ``advice``, as in
    ``advice.json``, unless the run is one of several jobs or too long to be tried again some thirty
    times.
    """
    from flowcontrol.memory.parts import parts_of

    if job.scenario.jobs or job.steps > MOST_STEPS_OF_ADVICE:
        return
    own = parts_of(job)

    def fits(other: Job) -> bool:
        return other.steps <= MOST_STEPS_OF_ADVICE and parts_of(other) | own == own

    adviser = Adviser(varied_base(job.scenario), job.scenario, tables, None, fits, None)
    summary["advice"] = adviser.advice(shown_late("changes")).summary


# --- What would help slow checkpoints: the same scenario with one change, on the virtual clock.


MOST_STEPS: Final = 40_000_000
"""Rounds times subtasks and channels of a run that is tried: a few seconds at most."""

_SLOW: Final = 0.5
"""Share of the interval from which the longest checkpoint is slow."""

_CHECKPOINT: Final = "execution.checkpointing."
_MEMORY: Final = "taskmanager.network.memory."
_UPLOAD: Final = "cluster.upload_bytes_per_s"
_TRANSPORT: Final = "system.transport."
_BOUNDS: Final = (("slots", "lot"), ("credit", "mark"))
"""Parameters of transports that bound a queue of records, and one that is at most as much."""

_AS_RUN: Final = "the scenario as it is"


def add_remedies(summary: dict[str, Any], scenario: Scenario) -> None:
    """Put what would help into the summary of a run whose checkpoints are slow.

    ``summary``: from :func:`flowcontrol.analysis.summarise`. If a checkpoint expired, or took more
    than half of the interval, and something could be tried, its ``checkpoints`` get ``remedies``,
    first the run as it is, and a sentence.
    """
    found = summary.get("checkpoints")
    if found is None or not _is_slow(found, scenario):
        return
    tried = checkpoint_remedies(scenario)
    if tried:
        rate = sum(summary["stages"][sink.name]["whole"]["rate_in"] for sink in scenario.sinks)
        found["remedies"] = [_figures(_AS_RUN, {}, found, rate), *tried]
        found["sentences"] = [*found["sentences"], remedy_sentence(tried)]


def checkpoint_remedies(scenario: Scenario, most_steps: int = MOST_STEPS) -> list[dict[str, Any]]:
    """Run a scenario with each change that may make its checkpoints faster.

    The changes are unaligned checkpoints, with windows of event time also those with interruptible
    timers, buffer debloating, half the buffers (under a transport
    that counts records half the slots, or half the credit), and for a job with state or with
    barriers that overtake twice the bandwidth of uploads; those that the scenario has already, or
    that do not go with it, are left out.

    ``most_steps``: rounds times subtasks and channels; a longer run is not tried.

    Of each run ``name``, ``changes`` (options, or keys of cluster and system, with values),
    ``completed`` and ``triggered`` (checkpoints; those that were in progress at the end do not
    count), ``e2e`` and ``persisted_bytes`` (as in
    :func:`~flowcontrol.analysis.checkpoints.checkpoint_summary`) and ``rate_in`` of all sinks,
    records/s.
    """
    tried = []
    for name, changes in _changes(scenario).items():
        run = _run(_changed(scenario, changes), most_steps)
        if run is not None:  # else the run of the scenario itself has its results
            own = run.job.scenario
            view, counts = RunView(own, run.tables), checkpoint_summary(run.tables, own)
            rates = (
                view.stage(one.name, view.windows["whole"]).rate("records_in") for one in own.sinks
            )
            tried.append(rounded(_figures(name, changes, counts, sum(rates))))
    return tried


def _run(job: Job | None, most_steps: int, *, track: bool = True) -> Run | None:
    """Run a job; None if it was refused, is too long, or fails.

    ``track``: whether latencies are wanted.
    """
    from flowcontrol.virtual import prepare_job, run_job

    if job is None or job.steps > most_steps:
        return None
    prepare_job(job)
    try:
        return run_job(job, track=track)
    except RunError:
        return None


def _changes(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Return the keys to change, by the name of the change."""
    options, own = scenario.options, scenario.checkpointing
    if own is None or scenario.jobs:
        return {}
    found: dict[str, dict[str, Any]] = {}
    if own.mode == "exactly_once" and not own.is_unaligned:
        found["unaligned checkpoints"] = {_CHECKPOINT + "unaligned.enabled": True}
    if own.mode == "exactly_once" and timer_windows(scenario) and not own.interrupts_timers:
        found["unaligned checkpoints and interruptible timers"] = {
            _CHECKPOINT + "unaligned.enabled": True,
            _CHECKPOINT + "unaligned.interruptible-timers.enabled": True,
        }
    if scenario.system.counts_records:
        found.update(_smaller(scenario.system.transport_values))
    else:
        if not options.debloat_enabled:
            found["buffer debloating"] = {_MEMORY + "buffer-debloat.enabled": True}
        found["half the buffers"] = {
            _MEMORY + "buffers-per-channel": max(1, options.exclusive_buffers // 2),
            _MEMORY + "floating-buffers-per-gate": max(1, options.floating_buffers // 2),
            _MEMORY + "max-buffers-per-channel": max(1, options.max_buffers_per_channel // 2),
        }
    if own.is_unaligned or any(stage.state is not None for stage in scenario.stages):
        upload = scenario.cluster.upload_bytes_per_s
        found["twice the upload bandwidth"] = {_UPLOAD: 2 * upload}
    return found


def _smaller(values: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return the change to half of what bounds a queue of records, if a parameter does.

    What comes back at a time, or is left when more comes, must not be more than that.
    """
    for bound, within in _BOUNDS:
        if bound in values and values[bound] >= 2:
            half = int(values[bound]) // 2
            changes = {_TRANSPORT + bound: half}
            if values.get(within, 0) > half:
                changes[_TRANSPORT + within] = half
            return {f"half the {bound}": changes}
    return {}


def _changed(scenario: Scenario, changes: Mapping[str, Any]) -> Job | None:
    """Return the changed job; None if it is refused."""
    try:
        changed = as_base(scenario).scenario(
            [(_path(key), value) for key, value in changes.items()]
        )
        return job_for(changed, "virtual")
    except ScenarioError:
        return None


def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split(".")) if key.startswith(("cluster.", "system.")) else ("options", key)


def _is_slow(found: Mapping[str, Any], scenario: Scenario) -> bool:
    own = scenario.checkpointing
    if own is None or own.interval_us is None:
        return False
    longest_ms = found["e2e"]["max_ms"] if found["e2e"] else 0.0
    return found["counts"]["expired"] > 0 or longest_ms > _SLOW * own.interval_us / 1000


def _figures(
    name: str, changes: Mapping[str, Any], found: Mapping[str, Any], rate_in: float
) -> dict[str, Any]:
    counts = found["counts"]
    return {
        "name": name,
        "changes": dict(changes),
        "completed": counts["completed"],
        "triggered": sum(counts.values()) - counts["in_progress"],
        "e2e": found["e2e"],
        "persisted_bytes": found["persisted_bytes"],
        "rate_in": rate_in,
    }


# --- The three guarantees compared: the same job and failures with each, on the virtual clock.


GUARANTEES: Final = ("at-most-once", "at-least-once", "exactly-once")

_SUMS: Final = ("written", "visible", "twice", "lost", "staged")


def add_guarantees(summary: dict[str, Any], scenario: Scenario) -> None:
    """Put what each guarantee would have shown into the summary of a run that failed.

    ``summary``: of a run; its ``delivery`` gets ``guarantees`` if something fails in the scenario
    and one of its sinks asks for another guarantee than at-least-once.
    """
    stated = any(stage.guarantee != "at-least-once" for stage in scenario.sinks)
    if "delivery" in summary and scenario.failures and stated and not scenario.jobs:
        found = compare_guarantees(scenario)
        if found:
            summary["delivery"]["guarantees"] = found


def compare_guarantees(scenario: Scenario, most_steps: int = MOST_STEPS) -> list[dict[str, Any]]:
    """Run a scenario with each guarantee of its sinks.

    ``most_steps``: rounds times subtasks and channels; a longer run is not tried.

    Of each ``guarantee``; ``written``, ``visible``, ``twice``, ``lost`` and ``staged`` of all sinks
    together at the end; ``visibility_p50_ms`` and ``visibility_max_ms``, the largest of the sinks,
    null if rows are visible at once; ``samples``, of each its time (s), and rows that are visible,
    visible twice and lost.
    """
    found = []
    for guarantee in GUARANTEES:
        run = _run(_guaranteed(scenario, guarantee), most_steps, track=False)
        if run is None:
            return []
        table = run.tables["delivery"]
        sinks = delivery_summary(table, run.job.scenario, run.staged, None, 0.0)["sinks"].values()
        one: dict[str, Any] = {"guarantee": guarantee}
        one |= {name: sum(own[name] for own in sinks) for name in _SUMS}
        for name in ("visibility_p50_ms", "visibility_max_ms"):
            one[name] = max((own[name] for own in sinks if own[name] is not None), default=None)
        one["samples"] = shown_rows(table, [stage.name for stage in scenario.sinks])
        found.append(one)
    return found


def _guaranteed(scenario: Scenario, guarantee: str) -> Job | None:
    """Return the job whose sinks have a guarantee; None if it is refused."""
    mapping, sinks = scenario.canonical(), {stage.name for stage in scenario.sinks}
    for stage in mapping["operators" if scenario.operators else "stages"]:
        if stage["name"] in sinks:
            stage["guarantee"] = guarantee
            if guarantee != "exactly-once":
                stage.pop("transaction_timeout_s", None)
    try:
        return job_for(parse_scenario(mapping), "virtual")
    except ScenarioError:
        return None
