"""What would help slow checkpoints: the same scenario with one change, on the virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowcontrol.analysis import summarise
from flowcontrol.analysis.checkpoint_causes import timer_windows
from flowcontrol.analysis.checkpoints import remedy_sentence
from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_base

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
        found["remedies"] = [_figures(_AS_RUN, {}, summary, scenario), *tried]
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
    from flowcontrol.virtual import prepare_job, run_job

    tried = []
    for name, changes in _changes(scenario).items():
        job = _job(scenario, changes)
        if job is None or job.steps > most_steps:
            continue
        prepare_job(job)
        try:
            run = run_job(job)
        except RunError:
            continue  # the run of the scenario itself has its results
        figures = summarise(
            run.tables,
            job.scenario,
            clock="virtual",
            rounds=run.rounds,
            wall_s=run.wall_s,
            round_ms=job.round_us / 1000,
            with_causes=False,
        )
        tried.append(_figures(name, changes, figures, job.scenario))
    return tried


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


def _job(scenario: Scenario, changes: Mapping[str, Any]) -> Job | None:
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
    name: str, changes: Mapping[str, Any], summary: Mapping[str, Any], scenario: Scenario
) -> dict[str, Any]:
    found = summary["checkpoints"]
    counts = found["counts"]
    stages = summary["stages"]
    return {
        "name": name,
        "changes": dict(changes),
        "completed": counts["completed"],
        "triggered": sum(counts.values()) - counts["in_progress"],
        "e2e": found["e2e"],
        "persisted_bytes": found["persisted_bytes"],
        "rate_in": sum(stages[sink.name]["whole"]["rate_in"] for sink in scenario.sinks),
    }
