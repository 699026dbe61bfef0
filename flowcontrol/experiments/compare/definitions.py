"""The definitions of a comparison's figures, for the page and for ``docs/compare.md``."""

from __future__ import annotations

from typing import Final

from flowcontrol.experiments.compare.metrics import TOLERANCE, TRANSIENT, WINDOW_SAMPLES
from flowcontrol.experiments.compare.starving import LEAST_SHARE

_WITHIN = f"{TOLERANCE:.0%}".replace("%", " %")

DEFINITIONS: Final = (
    (
        "Limit",
        "L(t), records/s of all sources together: the largest max-min fair rates at which no task "
        "and no connection has more to do than it can. A record of source subtask s puts k(r, s) "
        "on resource r: records of it that reach a task, over the task's service rate (its stages' "
        "times added up in a chain; 0 while it is stalled), or its bytes over a connection's "
        "bandwidth. With selectivities and the partitioners' shares fixed, the rates x(s) rise "
        "together until x(s) is what s offers, or a resource that s loads has sum of k(r, s) x(s) "
        "= 1. Buffers, latencies and the system itself are no part of it.",
    ),
    (
        "Of the limit",
        "Records that all sinks took up, over the integral of what they take up at the limit. "
        "Buffers that fill before the limit falls and drain after it rises can bring it above "
        "100 %.",
    ),
    (
        "Swing",
        "Coefficient of variation of the rate p of all producers in phases of a constant limit: "
        "root of the mean of (p / mean of p in its phase - 1) squared, over all samples that "
        f"count, weighted by their lengths. The first {TRANSIENT:.0%} of each phase is its "
        "transient and does not count; a phase needs three samples after it.".replace("%", " %"),
    ),
    (
        "Follows a slowdown in",
        f"A slowdown is a fall of the limit by more than {_WITHIN}. The producers follow it from "
        f"the first moment on (the fall, or a sample after it) at which their mean rate over the "
        f"next {WINDOW_SAMPLES} sample intervals, and over as many from each later sample until "
        f"the next change, is within {_WITHIN} of the new limit (of the old one if the new one is "
        "0). The figure is the longest of the times. If there is no such moment, the table says "
        "where the means over these windows were after the transient: all above the new limit, "
        "all below it, or neither, so that they swing. A phase shorter than that window is not "
        "looked at.",
    ),
    (
        "Recovers after a release in",
        f"The same after a rise of the limit by more than {_WITHIN}.",
    ),
    (
        "Runs ahead",
        "The mean rate of all producers in a phase, after its transient, is more than "
        f"{_WITHIN} above the limit. A system keeps to the limit if it never does, follows every "
        "slowdown, and brings through at least 90 % of what the job can carry.",
    ),
    (
        "Peak in flight",
        "Largest sum over all channels, at a sample, of records emitted by the sender's task and "
        "not yet taken up by the receiver's, and of their bytes.",
    ),
    (
        "Latency p50, p99",
        "Of all records at all sinks, from emission at the source to the start of processing; "
        "combined from the percentiles of each sample so that they are never too low.",
    ),
    (
        "Control messages per MB",
        "Messages without records that a system sends to steer others (credits, permits, windows, "
        "flags, votes), over the bytes of records that receivers took up on all edges, in "
        "megabytes of 1,000,000 bytes.",
    ),
    (
        "Memory bounded",
        "Whether what is held between the stages stayed within a bound that the system sets; if "
        "not, when a task manager's heap was full.",
    ),
    (
        "Starves",
        f"A receiver that took up less than {LEAST_SHARE:.0%} of what it could if only it and the "
        "stages before it set limits, and was idle more than blocked.".replace("%", " %"),
    ),
)
"""Terms and what they mean."""
