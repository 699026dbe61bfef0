"""From a mapping of keys to a scenario: read each part, then see what they mean together.

Nothing stops at the first problem. What is wrong by itself is left out of the checks that
need it, so that one slip does not show as ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.chains import resolve_chains
from flowcontrol.scenario.graph import check_edges, check_stage_names, find_cycle
from flowcontrol.scenario.jobs import read_jobs
from flowcontrol.scenario.models import Cluster, Edge, Input, Scenario, Stage
from flowcontrol.scenario.parts import Parts, read_parts
from flowcontrol.scenario.placement import place_subtasks
from flowcontrol.scenario.resolve_edges import resolve_edge
from flowcontrol.scenario.resolve_stages import (
    expand_stage_rates,
    expand_stalls,
    resolve_record_bytes,
    service_time_cv,
)
from flowcontrol.scenario.roles import check_roles
from flowcontrol.scenario.rows import Replayed, carried, resolve_input, resolve_output
from flowcontrol.scenario.spec import ClusterSpec

__all__ = ["parse_scenario"]


def parse_scenario(
    mapping: Mapping[str, Any], source: str = "scenario", base: Path | str = Path()
) -> Scenario:
    """Read and check a scenario that is already a mapping.

    Parameters
    ----------
    mapping : mapping
        Keys and values of a scenario file.
    source : str, default "scenario"
        What to call it in a refusal.
    base : Path or str, default the current folder
        Where relative paths of inputs start.

    Returns
    -------
    Scenario
        Checked, with every default filled in.

    Raises
    ------
    ScenarioError
        With everything that is wrong, each with the path of its key.

    Examples
    --------
    >>> scenario = parse_scenario({
    ...     "schema": 1, "name": "small", "duration_s": 10,
    ...     "stages": [{"name": "a", "emit_rate": 100}, {"name": "b", "service_rate": 50}],
    ...     "edges": [{"from": "a", "to": "b"}],
    ... })
    >>> scenario.stage("b").placement
    (1,)
    """
    found: list[Problem] = []
    problems: list[Problem] = []
    jobs = read_jobs(mapping, problems)
    parts = read_parts(jobs.mapping, found)
    job = _resolve(parts, Path(base), found, jobs.groups)
    problems += [jobs.moved(problem) for problem in found]
    jobs.check(None if parts.head is None else parts.head.duration_s, problems)
    if problems or parts.head is None or parts.options is None:
        raise ScenarioError(problems, source)
    head = parts.head
    return Scenario(
        name=head.name,
        duration_s=float(head.duration_s),
        round_ms=None if head.round_ms is None else float(head.round_ms),
        sample_interval_s=float(head.sample_interval_s),
        seed=head.seed,
        system=parts.system,
        cluster=_cluster(head.cluster),
        options=parts.options,
        stages=job.stages,
        edges=job.edges,
        jobs=jobs.spans(),
    )


def _cluster(spec: ClusterSpec) -> Cluster:
    bandwidth, disk = spec.bandwidth_bytes_per_s, spec.disk_bytes_per_s
    return Cluster(
        task_managers=spec.task_managers,
        slots=spec.slots,
        network_latency_ms=float(spec.network_latency_ms),
        bandwidth_bytes_per_s=None if bandwidth is None else float(bandwidth),
        disk_bytes_per_s=None if disk is None else float(disk),
        serialization_bytes_per_s=float(spec.serialization_bytes_per_s),
    )


@dataclass(frozen=True)
class _Job:
    """Stages and edges as meant."""

    stages: tuple[Stage, ...] = ()
    edges: tuple[Edge, ...] = ()


def _resolve(parts: Parts, base: Path, problems: list[Problem], groups: Sequence[range]) -> _Job:
    """Check the parts against each other and return what they mean.

    ``groups`` are the positions of each job's stages if the file has several jobs.
    """
    check_stage_names([(i, name) for i, name in enumerate(parts.names) if name], problems)
    check_edges(parts.links, parts.names, is_whole=parts.are_links_whole, problems=problems)
    rates = {spec.name: expand_stage_rates(i, spec, problems) for i, spec in parts.stages}
    replayed = {spec.name: resolve_input(i, spec, base, problems) for i, spec in parts.stages}
    is_sound = parts.is_whole and _is_sound(parts)
    onto = resolve_chains(parts.stages, parts.edges, problems) if is_sound else {}
    placed: dict[str, tuple[int, ...]] = {}
    if parts.is_whole and parts.cluster is not None:
        for group in groups or [range(len(parts.stages))]:
            stages = [parts.stages[index] for index in group]
            names = {spec.name for _, spec in stages}
            own = {name: to for name, to in onto.items() if {name, to} <= names}
            placed |= place_subtasks(stages, parts.cluster, own, problems)
    if not is_sound:
        return _Job()
    specs = [edge for _, edge in parts.edges]
    check_roles(parts.stages, specs, problems)
    sizes = resolve_record_bytes(parts.stages, specs, problems)
    taken: dict[str, str] = {}
    meant = tuple(
        Stage(
            name=spec.name,
            parallelism=spec.parallelism,
            emit_rate=rates[spec.name].emit,
            service_rate=rates[spec.name].service,
            record_bytes=sizes[spec.name],
            selectivity_exact=Fraction(1) if spec.selectivity is None else spec.selectivity,
            placement=placed.get(spec.name, ()),
            input=_input(replayed[spec.name]),
            output=resolve_output(i, spec, taken, problems),
            stalls=expand_stalls(i, spec, problems),
            service_time=spec.service_time,
            service_time_cv=service_time_cv(i, spec, problems),
        )
        for i, spec in parts.stages
    )
    by_name = {spec.name: spec for _, spec in parts.stages}
    rows = carried(specs, replayed)
    edges = tuple(resolve_edge(i, edge, by_name, rows, problems) for i, edge in parts.edges)
    return _Job(meant, edges)


def _input(replayed: Replayed | None) -> Input | None:
    return None if replayed is None else replayed[0]


def _is_sound(parts: Parts) -> bool:
    """Whether the edges make a job whose every stage can be looked at in order."""
    names = [spec.name for _, spec in parts.stages]
    links = [(edge.sender, edge.receiver) for _, edge in parts.edges]
    linked = {name for link in links for name in link}
    return len(set(names)) == len(names) and linked == set(names) and not find_cycle(links)
