"""The kernel's memory of sinks with requests in flight: what it holds, and how it is filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from flowcontrol.layout.requests import (
    hit_share,
    new_destination,
    new_writer,
    wait_settings,
    writer_settings,
)
from flowcontrol.layout.shares import stream_of
from flowcontrol.memory.cells import cells_of
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import rows
from flowcontrol.memory.places import Builder, Ints
from flowcontrol.state.async_wait import Element, WaitQueue, WaitSettings
from flowcontrol.state.declared import cell, width
from flowcontrol.state.requests import (
    Batch,
    BatchQueue,
    Destination,
    Entry,
    EntryList,
    Request,
    SinkWriter,
    WriterSettings,
)


@dataclass(slots=True)
class KernelRequests:
    """The requests of a task, and where their entries are."""

    settings: WriterSettings = field(default_factory=WriterSettings)
    """What its writer may do."""
    writer: SinkWriter = field(default_factory=SinkWriter)
    """How far that is; of an operator the figures of its calls."""
    wait: WaitSettings = field(default_factory=WaitSettings)
    """What an operator may do that calls a service."""
    queue: WaitQueue = field(default_factory=WaitQueue)
    """How far that is."""
    taken: EntryList = field(default_factory=EntryList)
    """Records that are taken up and not yet processed."""
    draws: int = 0
    """Errors of records drawn so far."""
    has_ended: int = 0
    """1: its input is over."""
    waited_us: int = 0
    """Time for which its thread waited for the destination, microseconds."""
    gone: int = 0
    """Records in flight when attempts of the task ended: it sees no answer to them."""
    replayed: int = 0
    """Records that the destination had stored behind the checkpoints to which restarts went
    back."""
    begun_acknowledged: int = 0
    """Records that were acknowledged when this attempt of the task began."""
    kept_count: int = 0
    """Entries of the buffer that the last checkpoint kept."""
    kept_acknowledged: int = 0
    """Records acknowledged by then."""
    turns_idle: int = 0
    """1: it says that it is idle once the watermark in hand is in its queue."""
    into_round: int = 0
    """Of a lookup: work between the start of a round and its last call, units."""
    entries: int = rows(Entry, "entry_count", lambda held: held.writer.used)
    entry_count: int = 0
    """How many there may be."""
    kept: int = rows(Entry, "kept_most", lambda held: held.kept_count)
    kept_most: int = 0
    """How many there may be: as many as an asynchronous request has, of a job that may fail."""
    slots: int = rows(Request, "slot_count")
    slot_count: int = 0
    """Requests that may be in flight."""
    batches: int = rows(Batch, "batch_count")
    batch_count: int = 0
    """Batches that the pool of a producer has room for."""
    queues: int = rows(BatchQueue, "queue_count")
    queue_count: int = 0
    """Partitions of a producer."""
    elements: int = rows(Element, "element_count", lambda held: held.queue.used)
    element_count: int = 0
    """Elements of the queue of an operator that calls a service, and one in hand."""
    hit_share: int = 0
    """Share of the records whose answer a cache has, millionths; constant."""
    cache_stream: int = 0
    """Of the random numbers of that; constant."""
    destination: int = 0
    """Where the destination is, of this task or of all tasks of the stage."""
    owns_destination: int = 0
    """1: this task is the only one that has it, or the first one; constant."""
    latencies: int = 0
    """Where the mean times of an answer are: rows (from when on, how long), microseconds."""
    latency_count: int = 0
    """How many there are."""
    stream: int = 0
    """Of its random numbers; constant."""
    seer: int = 0
    """Under which number the log of ages has records that were acknowledged; constant."""


Restored = Mapping[int, Sequence[Entry]]
"""By task, what its requests held in a checkpoint from which it begins."""
NOTHING: Final[Restored] = MappingProxyType({})


def fill_requests(build: Builder, restored: Restored) -> None:
    """Put the requests of each task there that has some; the tasks and the sinks are filled."""
    job, shared = build.job, dict[str, int]()
    first_seer = 2 * build.head.tasks + len(build.places.sinks)
    for number, (task, (plan, index)) in enumerate(
        zip(build.blocks["tasks_at"], job.subtasks, strict=False)
    ):
        requests = plan.stage.requests
        if requests is None:
            continue
        settings = writer_settings(job, requests)
        held = KernelRequests(
            settings,
            new_writer(requests, settings),
            entry_count=requests.records_held(min(one.record_bytes for one in plan.inputs)) + 2,
            slot_count=0 if requests.is_of_operator else settings.in_flight,
            batch_count=requests.pool_bytes // requests.bytes_most if requests.is_producer else 0,
            queue_count=settings.partitions if requests.is_producer else 0,
            kept_most=settings.batch if job.faults and requests.is_async else 0,
            seer=first_seer + number,
        )
        own = restored.get(number, ())
        held.entry_count += len(own)
        held.kept_most, held.kept_count = max(held.kept_most, len(own)), len(own)
        held.owns_destination = int(not requests.shares_limit or plan.name not in shared)
        if held.owns_destination == 1:
            shared[plan.name] = build.put(cells_of(new_destination(requests)))
        held.destination = shared[plan.name]
        phases = requests.latency_phases
        held.latencies = build.put(np.array(phases, np.int64).ravel())
        held.latency_count = len(phases)
        held.stream = stream_of(f"requests {plan.name}/{index}")
        if requests.is_of_operator:
            held.wait = wait_settings(job, requests)
            held.element_count = held.wait.capacity + 1
            if job.faults is not None:
                held.kept_most = max(held.wait.capacity, len(own))
            held.hit_share = hit_share(job, plan)
            held.cache_stream = stream_of(f"cache {plan.name}/{index}")
            task["awaits"] = 1
        build.lay(held, "entries", "kept", "slots", "batches", "queues", "elements")
        if own:
            build.tables.append((held.kept, np.concatenate([cells_of(one) for one in own])))
        task["has_requests"] = 1
        task["requests"] = build.put(cells_of(held))
        build.head.is_ordered |= int(requests.shares_limit)


# ---- what is left of it when its task begins anew

_COUNTERS = (
    *("requests", "sent", "sent_bytes", "acknowledged", "failed", "failed_requests", "timeouts"),
    *("doubled", "answers", "answer_time", "throttled", "exhausted"),
)
"""Fields of a writer that count since the start of the run."""


def kept_places(memory: Memory, at: int) -> Ints:
    """Return where that stands which a checkpoint keeps of the requests of a task."""
    held = memory.copy(at, KernelRequests)
    own = [at + cell(KernelRequests, name) for name in ("kept_count", "kept_acknowledged")]
    kept = held.kept + np.arange(held.kept_most * width(Entry))
    return np.concatenate([np.array(own, np.int64), kept])


def kept_entries(at: int, places: Ints, cut: Sequence[int]) -> tuple[list[Entry], int]:
    """Return the entries that a cut has, and how many records were acknowledged by then.

    ``places``: of its cells.
    """
    first = int(np.flatnonzero(places == at + cell(KernelRequests, "kept_count"))[0])
    count, acknowledged = int(cut[first]), int(cut[first + 1])
    rows = np.reshape(cut[first + 2 : first + 2 + count * width(Entry)], (count, width(Entry)))
    return [Entry(*row) for row in rows.tolist()], acknowledged


def lasting_places(memory: Memory, at: int) -> Ints:
    """Return where that stands which belongs to the run and not to an attempt of the task."""
    held, writer = memory.copy(at, KernelRequests), at + cell(KernelRequests, "writer")
    names = ("draws", "waited_us", "gone", "replayed", "begun_acknowledged")
    own = [at + cell(KernelRequests, name) for name in names]
    own += [writer + cell(SinkWriter, name) for name in _COUNTERS]
    destination = held.destination + np.arange(width(Destination))
    return np.concatenate([np.array(own, np.int64), destination])
