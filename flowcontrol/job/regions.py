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
