"""Several jobs in one file, read as one list of stages and edges.

All checks see the stages and edges of all jobs in one list. The places of their problems are then
mapped back to the file: ``jobs[1].stages[0]``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flowcontrol.errors import Problem
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.scenario.translate import read_part


class _Job(f.Mapping):
    quiet = frozenset({"stop_at_s"})

    name: f.Name = f.key("JobPart.name", ...)
    start_at_s: f.Moment = f.key("JobPart.start_at_s", Fraction(0))
    stop_at_s: f.Moment | None = f.key("JobPart.stop_at_s")


class JobPart(_Job):
    """One of several jobs of a file; its stages and edges are read one by one."""

    stages: tuple[Any, ...] = f.key("JobPart.stages", ..., min_length=1)
    edges: tuple[Any, ...] = f.key("JobPart.edges", ..., min_length=1)


class JobSpan(_Job):
    """One of several jobs: which stages are its own, and when it runs."""

    name: str
    """Empty: the only job of a scenario."""
    stages: tuple[str, ...]
    """Names of its stages."""

    @property
    def start_us(self) -> int:
        """When it is submitted, microseconds."""
        return int(self.start_at_s * MICROSECONDS)

    @property
    def stop_us(self) -> int | None:
        """When it is cancelled, microseconds; None: it runs to the end."""
        return None if self.stop_at_s is None else int(self.stop_at_s * MICROSECONDS)


_ITEM = re.compile(r"\b(stages|edges)\[(\d+)\]")
_KINDS = ("stages", "edges")


@dataclass(frozen=True)
class JobList:
    """The jobs of a file."""

    # The file with the stages and edges of all jobs in two lists; without ``jobs`` as it is.
    mapping: object
    specs: tuple[tuple[int, JobPart], ...] = ()  # Jobs that could be read, with their positions
    # For "stages" and "edges": job and position in it of each item of the lists.
    origins: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def groups(self) -> list[range]:
        """Positions of each job's stages in the list of all; empty without ``jobs``."""
        owners = [job for job, _ in self.origins.get("stages", ())]
        firsts = [i for i, job in enumerate(owners) if i == 0 or owners[i - 1] != job]
        return [range(i, j) for i, j in pairwise([*firsts, len(owners)])]

    def moved(self, problem: Problem) -> Problem:
        """Return a problem of the lists as one of the file."""
        if not self.origins:
            return problem
        place = "jobs" if problem.place == "edges" else _ITEM.sub(self._place, problem.place)
        return Problem(place, _ITEM.sub(self._place, problem.message))

    def spans(self) -> tuple[JobSpan, ...]:
        """Return the jobs; only valid if there are no problems."""
        return tuple(
            JobSpan(
                name=spec.name,
                start_at_s=spec.start_at_s,
                stop_at_s=spec.stop_at_s,
                stages=tuple(stage["name"] for stage in spec.stages),
            )
            for _, spec in self.specs
        )

    def check(self, duration_s: float | None, problems: list[Problem]) -> None:
        """Refuse duplicate names, times outside the run, and edges between jobs.

        ``duration_s``: length of the run; None if it could not be read.
        """
        seen: dict[str, int] = {}
        for index, spec in self.specs:
            first = seen.setdefault(spec.name.lower(), index)
            if first != index:
                text = f"{spec.name!r} is also the name of jobs[{first}]: give each its own name"
                problems.append(Problem(f"jobs[{index}].name", text))
            problems.extend(_wrong_times(f"jobs[{index}]", spec, duration_s))
        problems.extend(self._edges_between())

    def _place(self, found: re.Match[str]) -> str:
        kind, index = found[1], int(found[2])
        if index >= len(self.origins[kind]):
            return found[0]
        job, position = self.origins[kind][index]
        return f"jobs[{job}].{kind}[{position}]"

    def _edges_between(self) -> Iterator[Problem]:
        owners = {
            stage_name(stage): (index, spec.name)
            for index, spec in self.specs
            for stage in spec.stages
        }
        for index, spec in self.specs:
            own = set(map(stage_name, spec.stages))
            for position, edge in enumerate(spec.edges):
                for key in ("from", "to"):
                    name = edge.get(key) if isinstance(edge, Mapping) else None
                    if name and isinstance(name, str) and name not in own and name in owners:
                        text = (
                            f"{name!r} is a stage of the job {owners[name][1]!r}: an edge stays "
                            "within its job; jobs share task managers, not records"
                        )
                        yield Problem(f"jobs[{index}].edges[{position}].{key}", text)


def read_jobs(mapping: object, problems: list[Problem]) -> JobList:
    """Read the list of jobs of a file, if it has one."""
    if not isinstance(mapping, Mapping) or "jobs" not in mapping:
        return JobList(mapping)
    for kind in _KINDS:
        if kind in mapping:
            text = f"cannot be next to jobs: move it into one of the jobs; each has its own {kind}"
            problems.append(Problem(kind, text))
    raw = mapping["jobs"]
    if not isinstance(raw, list | tuple) or not raw:
        text = "needs a list of at least one job: {name, start_at_s, stop_at_s, stages, edges}"
        problems.append(Problem("jobs", f"{show(raw)} is not a list of jobs: {text}"))
        raw = ()
    specs = [(i, read_part(JobPart, job, ("jobs", i), problems)) for i, job in enumerate(raw)]
    lists: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    origins: dict[str, list[tuple[int, int]]] = {kind: [] for kind in _KINDS}
    for index, job in enumerate(raw):
        for kind in _KINDS:
            items = job.get(kind) if isinstance(job, Mapping) else None
            for position, item in enumerate(items if isinstance(items, list | tuple) else ()):
                lists[kind].append(item)
                origins[kind].append((index, position))
    # Problems of an empty list are reported at its place; the head of the file needs an item.
    whole = {kind: items or [None] for kind, items in lists.items()}
    return JobList(
        {**mapping, **whole}, tuple((i, spec) for i, spec in specs if spec is not None), origins
    )


def stage_name(stage: object) -> str:
    """Return the name of a stage; empty if it has none that an edge could mean."""
    name = stage.get("name") if isinstance(stage, Mapping) else None
    return name if isinstance(name, str) else ""


def _wrong_times(place: str, spec: JobPart, duration_s: float | None) -> Iterator[Problem]:
    start, stop = spec.start_at_s, spec.stop_at_s
    if duration_s is not None and start >= duration_s:
        text = f"{float(start):g} is not before the end of the run, {duration_s:g}"
        yield Problem(f"{place}.start_at_s", f"{text}: start it earlier, or raise duration_s")
    if stop is None:
        return
    if stop <= start:
        text = f"{float(stop):g} is not after its start, {float(start):g}"
        yield Problem(f"{place}.stop_at_s", f"{text}: stop it later, or leave the job out")
    elif duration_s is not None and stop > duration_s:
        text = f"{float(stop):g} is after the end of the run, {duration_s:g}"
        yield Problem(f"{place}.stop_at_s", f"{text}: leave it out, or raise duration_s")
