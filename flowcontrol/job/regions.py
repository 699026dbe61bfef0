"""Pipelined regions: stages that run at the same time, and what each waits for.

Flink's ``DefaultLogicalTopology`` and ``PipelinedRegionSchedulingStrategy``: stages joined by
pipelined edges are one region, and a region starts when all blocking partitions that it reads
are finished. A hybrid edge joins nothing and is waited for by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.scenario.partitions import regions_of

if TYPE_CHECKING:
    from flowcontrol.job.job import Job


def region_of_links(job: Job) -> dict[str, int]:
    """Return the region that reads each edge, by the edge's name.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    """
    regions = regions_of(job.scenario)
    return {link.name: regions[link.edge.receiver] for link in job.links}


def ending_stages(job: Job, names: set[str]) -> set[str]:
    """Return the tasks whose end matters: the senders of these edges, and all before them.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    names : set of str
        Names of edges.

    Returns
    -------
    set of str
        Names of the plans that run them.
    """
    found: set[str] = set()
    left = [job.stage(link.edge.sender) for link in job.links if link.name in names]
    while left:
        plan = left.pop()
        if plan.name not in found:
            found.add(plan.name)
            left += [job.stage(link.edge.sender) for link in plan.inputs]
    return found
