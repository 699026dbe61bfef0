"""Check all variants of a sweep before the first one runs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.sweep.plan import Plan, Point
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.virtual import choose_round_us
from flowcontrol.virtual.parts import parts_of

_MOST_SHOWN: Final = 20
"""Problems that a refusal lists; a thousand variants may have a thousand."""

_ID_LETTERS: Final = 16
"""Of a SHA-256: 64 bits, so among a million variants two are alike with a chance of 3e-8."""


@dataclass(frozen=True)
class Variant:
    """One run of a sweep.

    Attributes
    ----------
    id : str
        Hash of its canonical scenario.
    point : tuple
        Value of each varied key.
    replication : int
        Number of the replication, from 0.
    seed : int
        Of the run.
    cost : float
        Estimate of the work, in units that only compare variants with each other.
    parts : int
        Parts of the kernel that it needs (:mod:`flowcontrol.virtual.parts`).
    """

    id: str
    point: Point
    replication: int
    seed: int
    cost: float
    parts: int = 0


def variant_id(scenario: Scenario) -> str:
    """Return the hash of everything that decides a run of a scenario."""
    text = json.dumps(scenario.canonical(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LETTERS]


def variant_scenario(plan: Plan, point: Point, seed: int | None) -> Scenario:
    """Return the scenario of a variant; ``seed`` None leaves the file's own."""
    changes: list[tuple[tuple[str, ...], Any]] = plan.changes(point)
    if seed is not None:
        changes.append((("seed",), seed))
    return plan.base.scenario(changes)


def check_variants(plan: Plan, estimate: Callable[[Job], float]) -> list[Variant]:
    """Check every variant of a plan.

    Parameters
    ----------
    plan : Plan
        What is to be run.
    estimate : callable
        Returns the cost of a job.

    Returns
    -------
    list of Variant
        In the order of the plan, the replications of a point one after the other.

    Raises
    ------
    ScenarioError
        If a variant is refused, as it is read or as it is laid out, or if two are the same
        scenario. Each problem names a variant, its varied values, the key and the limit.
    """
    variants: list[Variant] = []
    refused: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], str] = {}
    for number, point in enumerate(plan.points()):
        try:
            variants += _point_variants(plan, point, estimate)
        except ScenarioError as error:
            for problem in error.problems:
                what = (problem.place, problem.message)
                refused[what] += 1
                place = f"variant {number + 1} of {plan.size} ({plan.text(point)})"
                places.setdefault(what, place)
    problems = [
        Problem(places[what], f"{what[0]}: {what[1]}{_also(count - 1)}")
        for what, count in refused.items()
    ]
    if not problems:
        problems = _alike(plan, variants)
    if problems:
        raise ScenarioError(_cut(problems), plan.base.source)
    return variants


def _point_variants(plan: Plan, point: Point, estimate: Callable[[Job], float]) -> list[Variant]:
    """Check one point; its replications differ only in the seed, so one check is enough."""
    first = variant_scenario(plan, point, None)
    problems = check_clock(first, "virtual")
    if problems:
        raise ScenarioError(problems, plan.base.source)
    job = build_physical_graph(first, round_us=choose_round_us(first))
    cost, parts = estimate(job), parts_of(job)
    if plan.replications == 1:
        return [Variant(variant_id(first), point, 0, first.seed, cost, parts)]
    seeds = range(first.seed, first.seed + plan.replications)
    scenarios = [variant_scenario(plan, point, seed) for seed in seeds]
    return [
        Variant(variant_id(scenario), point, index, scenario.seed, cost, parts)
        for index, scenario in enumerate(scenarios)
    ]


def _alike(plan: Plan, variants: list[Variant]) -> list[Problem]:
    """Return the variants that are the same scenario, written another way."""
    first: dict[str, Variant] = {}
    problems = []
    for variant in variants:
        other = first.setdefault(variant.id, variant)
        if other is not variant:
            text = f"is the same scenario as ({plan.text(other.point)}): state only one of them"
            problems.append(Problem(f"variant ({plan.text(variant.point)})", text))
    return problems


def _also(count: int) -> str:
    if not count:
        return ""
    return f" (and {count:,} more variant{'s' if count > 1 else ''})"


def _cut(problems: list[Problem]) -> list[Problem]:
    """Return the problems that fit a screen, and the number of the others."""
    left = len(problems) - _MOST_SHOWN
    if left <= 0:
        return problems
    return [*problems[:_MOST_SHOWN], Problem("...", f"and {left:,} more problems like these")]
