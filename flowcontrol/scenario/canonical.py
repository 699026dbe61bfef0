"""One way to write down a scenario: plain JSON that is a scenario file as well."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flowcontrol.scenario.models import Cluster, Edge, JobSpan, Scenario, Stage, SystemSpec
from flowcontrol.scenario.schedule import MICROSECONDS, Schedule

__all__ = ["canonical"]


def canonical(scenario: Scenario) -> dict[str, Any]:
    """Return everything that decides a run; see :meth:`Scenario.canonical`."""
    return {
        "schema": 1,
        "name": scenario.name,
        "duration_s": _number(scenario.duration_s),
        "round_ms": None if scenario.round_ms is None else _number(scenario.round_ms),
        "sample_interval_s": _number(scenario.sample_interval_s),
        "seed": scenario.seed,
        "system": _system(scenario.system),
        "cluster": _cluster(scenario.cluster),
        "options": scenario.options.canonical(),
        **_jobs(scenario),
    }


def _jobs(scenario: Scenario) -> dict[str, Any]:
    """Return the stages and edges, each in its job if there are several."""
    if scenario.jobs:
        return {"jobs": [_job(job, scenario) for job in scenario.jobs]}
    return {
        "stages": [_stage(stage) for stage in scenario.stages],
        "edges": [_edge(edge) for edge in scenario.edges],
    }


def _job(job: JobSpan, scenario: Scenario) -> dict[str, Any]:
    stop = None if job.stop_us is None else _number(Fraction(job.stop_us, MICROSECONDS))
    written = {
        "name": job.name,
        "start_at_s": _number(Fraction(job.start_us, MICROSECONDS)),
        "stop_at_s": stop,
        "stages": [_stage(stage) for stage in scenario.stages if stage.name in job.stages],
        "edges": [_edge(edge) for edge in scenario.edges if edge.sender in job.stages],
    }
    return {key: value for key, value in written.items() if value is not None}


def _number(value: Fraction | float) -> int | float:
    """Return a number of the file: whole ones as int, others as the double they came from."""
    number = float(value)
    return int(number) if number.is_integer() else number


def _system(system: SystemSpec) -> dict[str, Any]:
    parts = {
        "transport": (system.transport, system.transport_values),
        "throttle": (system.throttle, system.throttle_values),
    }
    return {
        kind: {"name": name, **{key: _number(value) for key, value in sorted(values.items())}}
        if values
        else name
        for kind, (name, values) in parts.items()
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    written = {
        key: _number(value) if isinstance(value, float) else value
        for key, value in cluster.model_dump().items()
    }
    if cluster.serialization_bytes_per_s == Cluster().serialization_bytes_per_s:
        del written["serialization_bytes_per_s"]
    if cluster.disk_bytes_per_s is None:
        del written["disk_bytes_per_s"]
    return written


def _rates(schedules: Sequence[Schedule] | None) -> list[Any] | None:
    if schedules is None:
        return None
    return [
        [
            {"at_s": _number(Fraction(phase.at_us, MICROSECONDS)), "rate": _number(phase.rate)}
            for phase in schedule.phases
        ]
        for schedule in schedules
    ]


def _stage(stage: Stage) -> dict[str, Any]:
    written = {
        "name": stage.name,
        "parallelism": stage.parallelism,
        "emit_rate": _rates(stage.emit_rate),
        "service_rate": _rates(stage.service_rate),
        "record_bytes": stage.record_bytes,
        "selectivity": _number(stage.selectivity_exact),
        "placement": list(stage.placement),
        "input": None if stage.input is None else stage.input.model_dump(mode="json"),
        "output": None if stage.output is None else stage.output.model_dump(mode="json"),
        "stalls": [
            {
                "at_s": _number(Fraction(stall.at_us, MICROSECONDS)),
                "for_s": _number(Fraction(stall.for_us, MICROSECONDS)),
                "subtasks": list(stall.subtasks),
            }
            for stall in stage.stalls
        ],
        "service_time": stage.service_time,
        "service_time_cv": (
            _number(stage.service_time_cv) if stage.service_time == "lognormal" else None
        ),
    }
    return {key: value for key, value in written.items() if value is not None and value != []}


def _edge(edge: Edge) -> dict[str, Any]:
    keys = edge.key_weights
    shares = edge.channel_weights
    written = {
        "from": edge.sender,
        "to": edge.receiver,
        "partitioner": edge.partitioner,
        "key_weights": None if keys is None else {k: _number(w) for k, w in keys.items()},
        "channel_weights": None if shares is None else [_number(share) for share in shares],
        "key": edge.key,
        "chain": edge.chain,
        "partition_type": edge.partition_type,
    }
    return {key: value for key, value in written.items() if value is not None}
