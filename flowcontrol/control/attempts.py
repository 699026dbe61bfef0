"""The tasks of a run in the kernel's memory, attempt by attempt: stopped, and restored from a cut.

Between two calls of the kernel the memory is Python's. A task begins anew by the memory's first
image of it, and by the cells that its checkpoint kept.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from flowcontrol.control.cuts import CutLogs, Cuts, lose_messages
from flowcontrol.kernel import requests as q
from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import free_runs, push_run
from flowcontrol.kernel.disk import spill_row
from flowcontrol.kernel.reports import aside_of
from flowcontrol.kernel.views import (
    aligned_channels,
    areas_of_task,
    kernel_checkpoints,
    kernel_time,
    wake,
)
from flowcontrol.layout.job import Job
from flowcontrol.layout.work import most_emitted
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import sparse, view
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import CUT_SLOTS, KernelCheckpoints
from flowcontrol.memory.places import Ints
from flowcontrol.memory.requests import kept_entries, lasting_places
from flowcontrol.memory.task_memory import all_cut_places
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.network.rounds import enqueue_message
from flowcontrol.protocol.tasks.reading import lag
from flowcontrol.state import rows as w
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import Message
from flowcontrol.state.queues import DATA
from flowcontrol.state.requests import Entry
from flowcontrol.state.rows import KIND_RESTORED
from flowcontrol.state.tasks import SOURCE
from flowcontrol.systems.barrier_buffer import forget
from flowcontrol.systems.transports.rules import begin_receiver, begin_sender

KEPT = ("wake", "next", "previous", "last", "busy", "idle", "blocked", "absent", "draws")
"""Fields of a task that belong to the machine, not to an attempt."""

NOWHERE = np.array([], np.int64)

ChannelCounts = Mapping[str, Sequence[tuple[int, int]]]
"""Records by the name of an edge, of each of its channels in their order: in, and out."""


class KernelAttempts:
    """The tasks of a job that may fail.

    - ``memory``: of its run, before the first round.
    - ``own``: the tasks that run in this memory, of which it is known what they had in flight; by
      default all do.
    - ``logs``: what checkpoints hold besides counts.
    - ``hooks``: called before tasks begin anew; each returns what is called afterwards. For whoever
      counts from cells that go back.
    - ``watchers``: called likewise, with the tasks and the checkpoint from which they begin.
    """

    def __init__(self, job: Job, memory: Memory, own: Collection[int] | None = None) -> None:
        self._own = range(memory.head.tasks) if own is None else own
        self.hooks: list[Callable[[], Callable[[], None]]] = []
        self.watchers: list[Callable[[list[int], int], Callable[[], None]]] = []
        self._job, self._memory = job, memory
        self._image = Memory(sparse(memory.cells), memory.places)
        self._places, self._cuts = all_cut_places(job, memory), Cuts()
        self._tasks = job.subtasks
        self.logs = CutLogs(memory)
        self._began: dict[int, int] = {}
        self._seen: Any = None
        if job.checkpoints is not None:
            held = (self._held(task) for task in range(len(self._tasks)))
            slots = range(CUT_SLOTS)
            self._id_places = np.array(
                [[own.cuts + slot * (1 + own.cut_cells) for slot in slots] for own in held]
            )
            self._seen = np.zeros_like(self._id_places)

    # ------------------------------------------------------------------ what is

    def is_finished(self, task: int) -> bool:
        """Tell whether a task has processed everything."""
        return bool(self._memory.tasks["is_finished"][task])

    def source(self, task: int) -> tuple[int, int]:
        """Return how far a source is, and how many records wait in its log; -1: it has none."""
        row = v.task_row(self._memory.head, task)
        if row.log == 0:
            return int(row.taken), -1
        log = v.source_log(self._memory.head, row.log)
        return int(log.position), int(lag(log))

    def position(self, task: int, checkpoint: int) -> int:
        """Return how far a source was when it took a checkpoint, or had finished; 0: no such."""
        cut, places = self._cuts.of(checkpoint, task), self._places[task]
        if cut is None:
            return self.source(task)[0] if checkpoint >= 0 and self.is_finished(task) else 0
        return int(cut[np.flatnonzero(places.all == places.position)[0]])

    def requests(self, task: int, checkpoint: int) -> tuple[list[Entry], int]:
        """Return what the requests of a task held in a checkpoint.

        And how many records the destination has stored that it will have again from there.
        """
        cut, at = self._cuts.of(checkpoint, task), int(self._memory.tasks["requests"][task])
        if cut is None or at == 0:
            return [], 0
        entries, acknowledged = kept_entries(at, self._places[task].all, cut.tolist())
        head, row = self._memory.head, v.task_row(self._memory.head, task)
        _, stored = q.ends_in_flight(head, row)
        now = q.kernel_requests(head, row.requests).writer.acknowledged
        return entries, now + stored - acknowledged

    def in_flight(self) -> int:
        """Return how many records are written to channels and not taken up."""
        return int(self._memory.outs["written"].sum() - self._memory.ins["processed"].sum())

    def most_emitted(self, task: int) -> int:
        """Return how many records a source emits in a round at most; 0: nobody knows."""
        return most_emitted(self._job, *self._tasks[task])

    def taken(self, task: int) -> int:
        """Return how many records a task has taken up; a source: emitted."""
        return int(self._memory.tasks["taken"][task])

    def channels(self) -> ChannelCounts:
        """Return what was put out to each channel, written or pending, and taken up from it."""
        cells, memory, found = self._memory.cells, self._memory, {}
        for name, (sent_at, taken_at) in self._ends().items():
            sent, taken = cells[sent_at].tolist(), cells[taken_at].tolist()
            for out, channel in enumerate(memory.places.outs[name].tolist()):
                row = memory.outs[channel]
                part = memory.partitions[row["partition"]]
                first, length = int(part["pending"]), int(part["pending_width"])
                place = 0 if part["is_broadcast"] == 1 else int(row["place"])
                sent[out] += w.fifo_values(cells[first : first + length].tolist()).count(place)
            found[name] = list(zip(sent, taken, strict=True))
        return found

    def cut_channels(self, checkpoint: int) -> ChannelCounts:
        """Return the same of a checkpoint: by the sender's barrier, and by the receiver's cut.

        With barriers at least once the latter may be more. Nothing of no checkpoint, -1.
        """
        kept = [
            (self._places[t].all, self._cuts.of(checkpoint, t)) for t in range(len(self._tasks))
        ]
        cuts = [(places, cut) for places, cut in kept if cut is not None]
        if not cuts:
            return {}
        places = np.concatenate([places for places, _ in cuts])
        order, values = np.argsort(places), np.concatenate([cut for _, cut in cuts])
        places, values = places[order], values[order]
        found = {}
        for name, ends in self._ends().items():
            at = [np.minimum(np.searchsorted(places, own), len(places) - 1) for own in ends]
            are_known = (places[at[0]] == ends[0]) & (places[at[1]] == ends[1])
            counts = [np.where(are_known, values[own], 0).tolist() for own in at]
            found[name] = list(zip(*counts, strict=True))
        return found

    def _ends(self) -> dict[str, tuple[Ints, Ints]]:
        """Return by edge the cells that count what was put out to its channels, and taken up."""
        memory, found = self._memory, {}
        sent_at = memory.head.outputs_at + cell(f.KernelSubpartition, "written")
        taken_at = memory.head.inputs_at + cell(f.KernelInputChannel, "processed")
        for link in self._job.links:
            out, into = memory.places.outs[link.name], memory.places.ins[link.name]
            found[link.name] = (
                sent_at + width(f.KernelSubpartition) * out,
                taken_at + width(f.KernelInputChannel) * into,
            )
        return found

    # ------------------------------------------------------------------ checkpoints

    def harvest(self, oldest: int) -> None:
        """Take the cuts that tasks have made since it was called last, of checkpoints that count.

        ``oldest``: the latest completed checkpoint, or -1: those before it are forgotten.
        """
        if self._seen is None:
            return
        ids = self._memory.cells[self._id_places]
        for task, slot in np.argwhere((ids != self._seen) & (ids >= oldest)).tolist():
            first = self._id_places[task, slot]
            kept = self._memory.cells[first + 1 : first + 1 + len(self._places[task].all)]
            self._cuts.note(int(ids[task, slot]), task, kept.copy())
        self._seen = ids
        self._cuts.forget(oldest)
        self.logs.forget(oldest)

    def has_cut(self, task: int, checkpoint: int) -> bool:
        """Tell whether a task took part in a checkpoint, as far as cuts were taken or put back."""
        return self._cuts.has(checkpoint, task)

    def last_cells(self, task: int) -> list[int]:
        """Return what a checkpoint would keep of a task now."""
        cells: list[int] = self._memory.cells[self._places[task].all].tolist()
        return cells

    def kept_entries(self, task: int, cells: Sequence[int]) -> list[tuple[int, int]]:
        """Return number and records of the entries of requests that such cells have."""
        at = int(self._memory.tasks["requests"][task])
        entries = kept_entries(at, self._places[task].all, cells)[0] if at > 0 else []
        return [(entry.first, entry.count) for entry in entries]

    def put_back(self, checkpoint: int, task: int, kept: list[int]) -> None:
        """Know what a task kept of a checkpoint before this process was there."""
        self._cuts.note(checkpoint, task, np.array(kept, np.int64))

    # ------------------------------------------------------------------ what happens

    def stop(self, tasks: list[int]) -> None:
        """Have tasks do nothing from this round on."""
        memory = self._memory
        for task in tasks:
            memory.tasks["status"][task] = f.ABSENT
            self._stop_waiting(task)
            if task in self._own and memory.tasks["requests"][task] > 0:
                q.note_end(memory.head, task, v.task_row(memory.head, task))
        gone = np.isin(memory.outs["sender"], tasks)
        for row in memory.tasks[memory.tasks["kind"] == f.CONNECTION]:
            first, length = int(row["union"]), w.FIFO_SLOTS + int(row["gates"])
            left = [out for out in memory.values(first, length) if not gone[out]]
            queue: Any = memory.cells[first : first + length]
            w.refill(queue, left)
        if memory.head.is_tcp == 1:
            lose_messages(memory, tasks)

    def _stop_waiting(self, task: int) -> None:
        """Have a task wait no more for the memory of its partitions that note it."""
        head = self._memory.head
        for number in self._partitions(task):
            row = v.partition_row(head, number)
            if row.kind >= PIPELINED:
                own = spill_row(head, row)
                own.waited += head.round - own.since if own.since >= 0 else 0
                own.since = -1

    def start(self, tasks: list[int], checkpoint: int, keeps: list[int]) -> None:
        """Have tasks begin anew in this round, from a checkpoint; -1: from the beginning.

        Those of ``keeps`` are sources that cannot rewind.
        """
        after = [hook() for hook in self.hooks]
        after += [watch(tasks, checkpoint) for watch in self.watchers]
        memory = self._memory
        for task in tasks:
            if self.is_finished(task):
                self._cuts.finish(task, memory.cells[self._places[task].all])
        cuts = {task: self._cuts.of(checkpoint, task) for task in tasks}
        kept = {task: memory.cells[self._places[task].all] for task in keeps}
        for task in tasks:
            self._count_replayed(task)
            self._reset(task)
        for task, cut in cuts.items():
            places = self._places[task]
            if cut is not None:
                memory.cells[places.all] = cut
            if task in kept:
                written = memory.cells[places.written]
                memory.cells[places.all] = kept[task]
                memory.cells[places.written] = written
        for task in tasks:
            if task in self._own:
                self.logs.put_windows(task, checkpoint)
                self._put_requests(task)
            self._put_in_flight(task, checkpoint)
            memory.tasks["status"][task] = f.IDLE
            wake(memory.head, task, memory.head.round)
        self._cuts.forget_finished(tasks)
        for call in after:
            call()

    def _count_replayed(self, task: int) -> None:
        """Count what a destination has of a task that begins anew, and may have again."""
        head, row = self._memory.head, v.task_row(self._memory.head, task)
        if row.requests > 0:
            held = q.kernel_requests(head, row.requests)
            flying, stored = q.ends_in_flight(head, row)
            held.gone += flying
            held.replayed += held.writer.acknowledged + stored

    def _put_requests(self, task: int) -> None:
        """Give the sink of a task that begins anew what its cut has kept of the buffer."""
        head, row = self._memory.head, v.task_row(self._memory.head, task)
        if row.requests > 0:
            held = q.kernel_requests(head, row.requests)
            # What came before this attempt was counted when that began, from the same checkpoint.
            held.replayed -= max(held.kept_acknowledged, held.begun_acknowledged)
            held.begun_acknowledged = held.writer.acknowledged
            q.put_back(head, row)

    def note_trigger(self, checkpoint: int, triggered_us: int) -> None:
        """Remember when a checkpoint was triggered: the age of what it has in flight."""
        self._began = {checkpoint: triggered_us // self._job.round_us}

    def _held(self, task: int) -> KernelCheckpoints:
        return view(
            KernelCheckpoints, self._memory.cells, int(self._memory.tasks["checkpoints"][task])
        )

    def _partitions(self, task: int) -> range:
        return self._numbers(task, "first_partition", "partitions")

    def _gates(self, task: int) -> range:
        return self._numbers(task, "first_gate", "gates")

    def _numbers(self, task: int, first: str, count: str) -> range:
        row = self._memory.tasks[task]
        return range(int(row[first]), int(row[first] + row[count]))

    def _reset(self, task: int) -> None:
        """Put a task back to its first image, with all that belongs to it."""
        memory, image = self._memory, self._image
        if memory.tasks["checkpoints"][task] > 0:
            held = self._held(task)
            if held.aside > 0:
                forget(aside_of(memory.head, held))
        row = memory.tasks[task]
        lasting = lasting_places(memory, int(row["requests"])) if row["requests"] > 0 else NOWHERE
        counted = memory.cells[lasting]
        for first, length in list(areas_of_task(memory, task)):  # how much is used changes with it
            memory.cells[first : first + length] = image.cells[first : first + length]
        memory.cells[lasting] = counted
        kept = {name: int(row[name]) for name in KEPT}
        if row["kind"] == SOURCE:
            kept["ready"] = int(row["ready"])
        memory.tasks[task] = image.tasks[task]
        for name, value in kept.items():
            memory.tasks[name][task] = value
        if row["log"] > 0:  # what is in it stays, the record that was being read is read again
            v.source_log(memory.head, int(row["log"])).reading = 0
        for number in self._gates(task):
            memory.gates[number] = image.gates[number]
            own = self._channels(memory.gates[number])
            _begin_anew(memory.ins[own], image.ins[own], ("received", "under_way"))
        for number in self._partitions(task):
            own = self._channels(memory.partitions[number])
            for out in range(own.start, own.stop):
                free_runs(memory.head, v.out_row(memory.head, out).runs)
            memory.partitions[number] = image.partitions[number]
            _begin_anew(memory.outs[own], image.outs[own], ("finished",))

    @staticmethod
    def _channels(row: Any) -> slice:
        first = int(row["first_channel"])
        return slice(first, first + int(row["channels"]))

    def _begin_counting(self, gate: int, place: int, channel: int) -> None:
        """Have both sides of a channel of records go on behind what was written to it."""
        head, row = self._memory.head, self._memory.gates[gate]
        transport, nbytes = v.transport_of(head), int(row["record_bytes"])
        into = v.in_row(head, channel)
        out = v.out_row(head, into.out)
        state = v.channel_grants(head, int(row["grants"]), int(row["channels"]))[place]
        begin_sender(transport, out, nbytes)
        begin_receiver(transport, state, into, out.written, nbytes)

    def _put_in_flight(self, task: int, checkpoint: int) -> None:
        """Give a task what was in flight to it, ahead of everything.

        The ages count from the trigger of the checkpoint.
        """
        head, row = self._memory.head, v.task_row(self._memory.head, task)
        first, emitted = 0, self._began.get(checkpoint, 0)
        for index, number in enumerate(self._gates(task)):
            gate = v.gate_of(head, number)
            own = self._channels(self._memory.gates[number])
            for place, channel in enumerate(range(own.start, own.stop)):
                into = v.in_row(head, channel)
                out = v.out_row(head, into.out)
                into.processed = min(out.written, into.processed)
                record_bytes = int(self._memory.gates["record_bytes"][number])
                if head.counts_records == 1:
                    self._begin_counting(number, place, channel)
                records, marks, nbytes = out.written - into.processed, 0, 0
                if head.has_checkpoints == 1:
                    held = kernel_checkpoints(head, row.checkpoints)
                    aligned = aligned_channels(head, held.channels, held.channel_count)
                    own_place = aligned[first + place]
                    if row.is_timed == 1:
                        given = kernel_time(head, v.task_row(head, out.sender).time).own.marks
                        own_place.marks = min(given, own_place.marks)
                        marks = given - own_place.marks
                        counts = records, marks
                        if task in self._own:
                            nbytes = self.logs.put_elements(into.out, checkpoint, counts, emitted)
                    own_place.arrived = out.written * record_bytes + nbytes
                if records + marks > 0:
                    row.queued += records
                    nbytes += records * record_bytes
                    message = Message(DATA, records, nbytes, marks=marks)
                    union = v.union_of(head, row)
                    enqueue_message(gate, union, index, place, message, KIND_RESTORED)
                    if row.is_timed == 0:
                        push_run(head, out.runs, emitted, records)
            first += own.stop - own.start


def _begin_anew(rows: Any, image: Any, rings: tuple[str, ...]) -> None:
    """Put channels back to their first image; their queues are empty, and stay where they are."""
    kept = {ring: rows[ring][["span", "place"]].copy() for ring in rings}
    rows[:] = image
    for ring, where in kept.items():
        for name in where.dtype.names or ():
            rows[ring][name] = where[name]
