"""Cut variants into chunks that shrink towards the end, so that workers finish together.

Guided self-scheduling (Polychronopoulos and Kuck, 1987): a chunk is a share of what is left, so
the chunks shrink towards the end and no worker has much to do when the others are through. What
alone costs more than a chunk goes first. The rest is shuffled: neighbours in a product cost
alike, and an estimate that is wrong for some of them is then wrong for a little of every chunk.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from flowcontrol.experiments.sweep.checks import Variant
from flowcontrol.job import Job

_SHARES: Final = 4
"""A chunk is the remaining work over this multiple of the workers."""

_SMALLEST: Final = 64
"""The smallest chunk is all work over this multiple of the workers: any task of Spark costs some
10 ms."""

_RECORD: Final = 0.02
"""Cost of a record on a hop, in rounds of a channel."""


def estimated_cost(job: Job) -> float:
    """Return the estimated cost of a run, in steps of one channel or subtask.

    Parameters
    ----------
    job : Job
        Laid out.

    Returns
    -------
    float
        Above 0; only comparable within one sweep.
    """
    subtasks = sum(plan.stage.parallelism for plan in job.stages)
    channels = sum(len(link.channels) for link in job.links)
    emitted = sum(
        schedule.records_until(job.scenario.duration_us)
        for plan in job.stages
        for schedule in plan.stage.emit_rate or ()
    )
    return job.rounds * (channels + subtasks) + _RECORD * emitted * len(job.stages)


def into_chunks(variants: Sequence[Variant], workers: int, seed: int) -> list[list[Variant]]:
    """Cut variants into chunks, in the order of their start.

    Parameters
    ----------
    variants : sequence of Variant
        Variants to run.
    workers : int
        Chunks that run at a time; at least 1.
    seed : int
        Of the shuffle.

    Returns
    -------
    list of list of Variant
        Every variant in exactly one of them; none is empty.
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
