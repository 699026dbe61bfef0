"""How fast a source can be at most: a bound for whoever looks only now and then."""

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.work import ServiceCurve
from flowcontrol.protocol.service import CONSTANT, PHASE_RATE


def most_emitted(job: Job, plan: JobVertex, index: int) -> int:
    """Return how many records a subtask of a source emits in a round at most.

    Returns
    -------
    int
        0 if there is no bound: its intervals are drawn.
    """
    curve = ServiceCurve.of(job, plan, index)
    if curve is None or curve.kind != CONSTANT:
        return 0
    fastest = max(int(phase[PHASE_RATE]) for phase in curve.phases)
    return fastest * job.round_us // curve.unit + 2
