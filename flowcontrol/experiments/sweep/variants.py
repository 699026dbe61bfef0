"""The variants of a sweep: all checked before the first one runs, then cut into chunks.

Guided self-scheduling (Polychronopoulos and Kuck, 1987): a chunk is a share of what is left, so
the chunks shrink towards the end and no worker has much to do when the others are through. What
alone costs more than a chunk goes first. The rest is shuffled: neighbours in a product cost
alike, and an estimate that is wrong for some of them is then wrong for a little of every chunk.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import job_for, short_hash
from flowcontrol.experiments.sweep.plan import Plan, Point
from flowcontrol.layout.job import Job
from flowcontrol.memory.parts import parts_of
from flowcontrol.scenario import Scenario

_MOST_SHOWN: Final = 20
"""Problems that a refusal lists; a thousand variants may have a thousand."""

_ALL: Final = slice(0, None)


@dataclass(frozen=True)
class Variant:
    """One run of a sweep."""

    id: str  # Hash of its canonical scenario
    point: Point  # Value of each varied key
    replication: int  # Number of the replication, from 0
    seed: int  # Of the run
    cost: float  # Estimate of the work, in units that only compare variants with each other
    parts: int = 0  # Parts of the kernel that it needs (:mod:`flowcontrol.memory.parts`)


def variant_id(scenario: Scenario) -> str:
    """Return the hash of everything that decides a run of a scenario."""
    text = json.dumps(scenario.canonical(), sort_keys=True, separators=(",", ":"))
    return short_hash(text)


Checked = list[Variant] | list[Problem]
"""What the check of a point finds: its variants, or why it is refused."""


def check_points(plan: Plan, part: slice = _ALL) -> list[Checked]:
    """Check the points of a plan, or a part of them, each by itself."""
    return [_check(plan, point) for point in islice(plan.points(), part.start, part.stop)]


def _check(plan: Plan, point: Point) -> Checked:
    try:
        return _point_variants(plan, point)
    except ScenarioError as error:
        return list(error.problems)


def check_variants(
    plan: Plan, check: Callable[[Plan], list[Checked]] = check_points
) -> list[Variant]:
    """Check every variant of a plan.

    In the order of the plan, the replications of a point one after the other. Raises ScenarioError
    if a variant is refused, as it is read or as it is laid out, or if two are the same scenario.
    Each problem names a variant, its varied values, the key and the limit.
    """
    variants: list[Variant] = []
    refused: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], str] = {}
    for number, (point, found) in enumerate(zip(plan.points(), check(plan), strict=True)):
        for one in found:
            if isinstance(one, Variant):
                variants.append(one)
                continue
            what = (one.place, one.message)
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


def _point_variants(plan: Plan, point: Point) -> list[Variant]:
    """Check one point; its replications differ only in the seed, so one check is enough."""
    first = plan.scenario(point)
    job = job_for(first, plan.base.source)
    cost, parts = estimated_cost(job), parts_of(job)
    variants = []
    for index in range(plan.replications):
        seed = first.seed + index
        scenario = plan.scenario(point, seed) if index else first
        variants.append(Variant(variant_id(scenario), point, index, seed, cost, parts))
    return variants


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


_SHARES: Final = 4
"""A chunk is the remaining work over this multiple of the workers."""

_SMALLEST: Final = 64
"""The smallest chunk is all work over this multiple of the workers: any task of Spark costs some
10 ms."""

_RECORD: Final = 0.02
"""Cost of a record on a hop, in rounds of a channel."""


def estimated_cost(job: Job) -> float:
    """Return the estimated cost of a run, in steps of one channel or subtask.

    The cost is above 0, and only comparable within one sweep.
    """
    subtasks = sum(plan.stage.parallelism for plan in job.stages)
    channels = sum(link.width for link in job.links)
    emitted = sum(
        schedule.records_until(job.scenario.duration_us)
        for plan in job.stages
        for schedule in plan.stage.emit_rate or ()
    )
    return job.rounds * (channels + subtasks) + _RECORD * emitted * len(job.stages)


def into_chunks(variants: Sequence[Variant], workers: int, seed: int) -> list[list[Variant]]:
    """Cut variants into chunks, in the order of their start.

    ``workers``: chunks that run at a time; at least 1.

    Every variant is in exactly one of them; none is empty.
    """
    total = left = sum(variant.cost for variant in variants)
    smallest = total / (_SMALLEST * workers)
    order = sorted(variants, key=lambda variant: variant.id)
    random.Random(seed).shuffle(order)
    large = [variant for variant in order if variant.cost >= total / (_SHARES * workers)]
    chunks = [[variant] for variant in sorted(large, key=lambda variant: -variant.cost)]
    left -= sum(variant.cost for variant in large)
    first = {variant.id for variant in large}
    chunk: list[Variant] = []
    filled = 0.0
    for variant in order:
        if variant.id in first:
            continue
        chunk.append(variant)
        filled += variant.cost
        if filled >= max(smallest, left / (_SHARES * workers)):
            chunks.append(chunk)
            left -= filled
            chunk, filled = [], 0.0
    return [*chunks, chunk] if chunk else chunks
