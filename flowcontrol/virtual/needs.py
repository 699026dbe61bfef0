"""Which parts of the kernel a job needs."""

from __future__ import annotations

from flowcontrol.job.job import Job
from flowcontrol.virtual import parts as k
from flowcontrol.virtual.spill_memory import kinds_of


def parts_of(job: Job) -> int:
    """Return the parts that a job needs, as a sum.

    Parameters
    ----------
    job : Job
        The scenario, laid out.

    Returns
    -------
    int
        A sum of the constants of :mod:`.parts`; BUFFERS of a job under credits alone.
    """
    scenario, parts = job.scenario, k.BUFFERS
    if job.record_transport is not None:
        parts = k.RECORDS | k.transport_part(job.record_transport.kind)
    if scenario.system.transport == "tcp":
        parts |= k.TCP | k.WIRES
    if kinds_of(job):
        parts |= k.SPILLS
    if scenario.cluster.bandwidth_bytes_per_s is not None:
        parts |= k.WIRES
    if scenario.system.throttle != "none":
        parts |= k.THROTTLES
    if scenario.options.debloat_enabled:
        parts |= k.DEBLOATING
    if scenario.shares_memory:
        parts |= k.JOBS
    return parts
