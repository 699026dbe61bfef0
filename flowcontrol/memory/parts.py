"""Parts of the kernel that only some jobs need: what a job does without is not compiled."""

from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import has_batches, has_markers, is_timed
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import needs
from flowcontrol.memory.links import kinds_of
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.network.partition_kinds import BOUNDED
from flowcontrol.protocol.tasks import checkpointing, event_time, windowing
from flowcontrol.protocol.tasks.operators import SELECTIVITY
from flowcontrol.state.network import LocalPool, Message, ReceivedMessage
from flowcontrol.state.tasks import Operator, TaskBatch
from flowcontrol.systems.transports.rules import names

TCP = 1
"""Connections without credits, as Flink up to 1.4 had them."""
RECORDS = 2
"""Transports that count records, not buffers."""
SPILLS = 4
"""Result partitions other than the pipelined and bounded one."""
WIRES = 8
"""Connections on which channels wait for their turn."""
THROTTLES = 16
"""Sources that a controller commands."""
DEBLOATING = 32
"""Buffer debloating."""
JOBS = 64
"""Jobs that start and stop, and share the network memory of their task managers."""
BUFFERS = 128
"""Transports that move buffers, under credits or without."""
LOGS = 256
"""Sources that read logs."""

CHECKPOINTS = 512
"""Barriers, and tasks that align them."""

FAILURES = 1024
"""Tasks that fail and restart."""

EVENT_TIME = 2048
"""Records with event times, and watermarks."""

WINDOWS = 4096
"""Windows, and records that are routed by their key."""

ALIGNMENT = 8192
"""Sources that wait for one another by event time."""

MARKERS = 16384
"""Latency markers."""

BATCHES = 32768
"""Windows that are Spark's."""

CORES = 65536
"""Processors that the tasks of a task manager share."""

BROADCASTS = 131072
"""Result partitions whose channels all read the same buffers."""

REQUESTS = 262144
"""Sinks with requests in flight, and operators that call a service."""

NOBODY = 1 << 62
"""In place of a part: no kernel has it."""

JOURNAL = 1 << 61
"""Which records tasks move; no kernel is compiled with it."""

_FIRST_TRANSPORT = 19
"""Place of the part of the first transport that counts records."""


def transport_part(kind: int) -> int:
    """Return the part with the rules of a transport that counts records; RECORDS besides."""
    return 1 << (_FIRST_TRANSPORT + kind)


def transport_kinds(parts: int) -> list[int]:
    """Return the kinds of the transports whose rules are among some parts."""
    bits = parts >> _FIRST_TRANSPORT
    return [kind for kind in range(bits.bit_length()) if bits >> kind & 1]


SWITCHES: dict[type[Any], dict[str, tuple[int, int]]] = {
    KernelMemory: {
        "is_tcp": (TCP, 0),
        "counts_records": (RECORDS, 0),
        "is_shared": (JOBS, 0),
        "is_watched": (THROTTLES, 0),
        "debloat_us": (DEBLOATING, 0),
        "has_readers": (LOGS, 0),
        "has_checkpoints": (CHECKPOINTS, 0),
        "may_fail": (FAILURES, 0),
        **dict.fromkeys(("has_processors", "managers"), (CORES, 0)),
        "drops_ages": (EVENT_TIME, 0),
        **dict.fromkeys(("results_most", "results_count"), (WINDOWS, 0)),
        **dict.fromkeys(("kept_most", "kept_count"), (EVENT_TIME, 0)),
        **dict.fromkeys(("kept_windows_most", "kept_windows_count"), (WINDOWS, 0)),
    },
    f.KernelTask: {
        **dict.fromkeys(("has_checkpoints", "withheld"), (CHECKPOINTS, 0)),
        **dict.fromkeys(("is_timed", "has_stamps", "marks", "stamp"), (EVENT_TIME, 0)),
        **dict.fromkeys(("has_window", "is_firing", "yields"), (WINDOWS, 0)),
        "is_aligned": (ALIGNMENT, 0),
        **dict.fromkeys(("has_requests", "awaits"), (REQUESTS, 0)),
        "has_markers": (MARKERS, 0),
        "processor": (CORES, 0),
        "kinds": (SPILLS, 0),
    },
    f.KernelPartition: {
        "is_broadcast": (BROADCASTS, 0),
        "kind": (SPILLS, BOUNDED),
        "is_stopped": (SPILLS, 0),
    },
    f.KernelInputChannel: {"is_released": (NOBODY, 0), "recorded": (EVENT_TIME, 0)},
    LocalPool: {"is_destroyed": (JOBS, 0)},
    TaskBatch: {"is_batched": (BATCHES, 0)},
    Operator: {"kind": (WINDOWS, SELECTIVITY)},
    f.KernelSubpartition: {
        **dict.fromkeys(("is_blocked", "blocks", "resumed"), (CHECKPOINTS, 0)),
        **dict.fromkeys(("marks",), (EVENT_TIME, 0)),
        **dict.fromkeys(("closed", "handed", "held", "quota"), (RECORDS, 0)),
    },
    f.Run: dict.fromkeys(("stamp", "kind"), (EVENT_TIME, 0)),
    **{
        message: {
            **dict.fromkeys(("checkpoint", "created"), (CHECKPOINTS, 0)),
            "marks": (EVENT_TIME, 0),
        }
        for message in (Message, ReceivedMessage, f.KernelMessage)
    },
}
"""Fields that have one value in every job that a kernel without a part runs, by class: the part and
the value. One of a class is constant wherever states of that class are."""

needs(CHECKPOINTS, checkpointing.after_sending, checkpointing.may_finish, event_time.count_mark)
needs(CHECKPOINTS, checkpointing.note_writing)
needs(EVENT_TIME, event_time.begin_event, event_time.end_event, event_time.end_time)
needs(EVENT_TIME, event_time.on_mark, event_time.probe_generator, event_time.stop_time)
needs(EVENT_TIME, event_time.next_probe_us)
needs(MARKERS, windowing.emit_latency_marker, windowing.pass_marker)
needs(WINDOWS, windowing.fire_next, windowing.on_processing_time, windowing.process_watermark)
needs(WINDOWS, windowing.waits_for_batches)
needs(ALIGNMENT, event_time.is_paused)

EVERYTHING = (1 << _FIRST_TRANSPORT + len(names())) - 1


def parts_of(job: Job) -> int:
    """Return the parts that a job needs, as a sum.

    Returns a sum of the constants above; BUFFERS of a job under credits alone.
    """
    scenario, own, parts = job.scenario, job.record_transport, BUFFERS
    if own is not None:
        parts = RECORDS | transport_part(own.kind)
    needed = (
        (TCP | WIRES, scenario.system.transport == "tcp"),
        (SPILLS, bool(kinds_of(job))),
        (WIRES, scenario.cluster.bandwidth_bytes_per_s is not None),
        (THROTTLES, scenario.system.throttle != "none"),
        (DEBLOATING, scenario.options.debloat_enabled),
        (JOBS, scenario.shares_memory),
        (LOGS, any(stage.reads_log for stage in scenario.stages)),
        (CHECKPOINTS, job.checkpoints is not None),
        (FAILURES, job.faults is not None),
        (EVENT_TIME, is_timed(job)),
        (WINDOWS, any(stage.window for stage in scenario.stages)),
        (ALIGNMENT, bool(scenario.alignment_groups)),
        (MARKERS, has_markers(job)),
        (BATCHES, has_batches(scenario)),
        (CORES, scenario.counts_processors),
        (REQUESTS, any(stage.requests for stage in scenario.stages)),
        (BROADCASTS, any(edge.partitioner == "broadcast" for edge in scenario.edges)),
    )
    for part, is_needed in needed:
        parts |= part if is_needed else 0
    return parts
