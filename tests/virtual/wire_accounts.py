"""What must hold of connections without credits after any round, from the kernel's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowcontrol.control.between import Between
from flowcontrol.kernel.machines import tcp_connection, tcp_messages
from flowcontrol.kernel.views import gate_of
from flowcontrol.layout.job import Job
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import view
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import CUT_SLOTS, KernelCheckpoints
from flowcontrol.results.state_reader import StateReader
from flowcontrol.state.declared import cell, width
from flowcontrol.state.queues import END_OF_PARTITION, SPANNING_DATA, in_order
from flowcontrol.systems import tcp as t
from modules import load
from staged_runs import round_rows

ABOUT_CREDITS = ("more than announced", "promised")

clocks = load("tests/virtual/clocks.py")


class Wires:
    """A run without credits, a round at a time.

    Parameters
    ----------
    job : Job
        Laid out, its transport tcp.

    Attributes
    ----------
    written : dict of int to list of int
        By channel at its sender: records that end in each buffer written so far.
    ended : set of int
        Channels whose end of the partition is written.
    late : set of int
        Channels on which something was written behind that.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        is_plain = job.checkpoints is None
        reports, asides = (0, 0) if is_plain else (1 << 9, 1 << 12)
        sizes = LogSizes(1 << 16, 1 << 10, reports=reports, asides=asides)
        self.memory: Memory = fill(job, sizes, track=False)
        self.between = Between(job, self.memory)
        self.coordination = self.between.coordination
        self.reader = StateReader(job, self.memory, self.between)
        self.done = 0
        self.seen: set[str] = set()
        self.numbers = [
            number for number, task in enumerate(self.memory.tasks) if task["kind"] == f.CONNECTION
        ]
        self.written: dict[int, list[int]] = {i: [] for i in range(len(self.memory.outs))}
        self.ended: set[int] = set()
        self.late: set[int] = set()
        self._before = dict.fromkeys(self.numbers, 0)

    def run(self, rounds: int = 1) -> None:
        """Run some rounds more."""
        for _ in range(rounds):
            self.finish(1)
            for number in self.numbers:
                wire, ring = self.wire(number), self.ring(number)
                for i in range(self._before[number], wire.written):
                    message = ring[i % len(ring)]
                    channel = message.channel
                    if channel in self.ended:
                        self.late.add(channel)
                    if message.kind == END_OF_PARTITION:
                        self.ended.add(channel)
                    elif message.kind <= SPANNING_DATA:
                        self.written[channel].append(message.records)
                self._before[number] = wire.written

    def finish(self, rounds: int) -> None:
        """Run so many rounds more in one go."""
        self.done += rounds
        clocks.advance_to(self.memory, self.between, self.done)

    def left(self) -> list[int]:
        """Records of each channel that were routed and not taken up."""
        memory, found = self.memory, []
        for out in memory.outs:
            partition = memory.partitions[out["partition"]]
            routed = memory.cells[partition["routed"] + out["place"]]
            found.append(int(routed - memory.ins["processed"][out["input"]]))
        return found

    def wire(self, number: int) -> t.TcpConnection:
        """State of a connection."""
        at = int(self.memory.tasks["phases"][number])
        return tcp_connection(self.memory.cells, at)

    def ring(self, number: int) -> Sequence[t.TcpMessage]:
        """Messages of a connection."""
        task = self.memory.tasks[number]
        at, slots = int(task["phases"]) + width(t.TcpConnection), int(task["phase_count"])
        return tcp_messages(self.memory.cells, at, slots)

    def messages(self, number: int, first: str, end: str) -> list[t.TcpMessage]:
        """Messages between two counters."""
        ring, wire = self.ring(number), self.wire(number)
        return [ring[i % len(ring)] for i in range(getattr(wire, first), getattr(wire, end))]

    def state(self, read: Any, batch: Any) -> Any:
        """Ledger rows as under credits, with what is on the connections, and plain counts."""
        state = self.reader.read()
        return read(batch(self.done - 1, round_rows(self.job, state.tasks), state))

    def violations(self, accounts: Any, read: Any, batch: Any) -> Iterator[str]:
        """Name what does not hold after the round just run."""
        yield from self.violations_of(self.state(read, batch), accounts)

    def violations_of(self, state: Any, accounts: Any) -> Iterator[str]:
        """Name what does not hold in a state, that after the round just run."""
        for text in accounts.violations(self.job, state):
            if not any(words in text for words in ABOUT_CREDITS):
                yield text
        for number in self.numbers:
            for text in (*self._bytes(number), *self._order(number)):
                yield f"connection {number}: {text}"
        yield from self._channels()

    def cuts(self) -> dict[tuple[int, int], tuple[int, int]]:
        """What each channel's sender had written, and its receiver processed, by checkpoint.

        Of checkpoints that both have taken, by channel at its sender and checkpoint.
        """
        memory, found = self.memory, dict[tuple[int, int], tuple[int, int]]()
        kept = [self._cuts(task) for task in range(len(memory.tasks))]
        head = memory.head
        for number, out in enumerate(memory.outs):
            into = int(out["input"])
            written = head.outputs_at + number * width(f.KernelSubpartition)
            written += cell(f.KernelSubpartition, "written")
            processed = head.inputs_at + into * width(f.KernelInputChannel)
            processed += cell(f.KernelInputChannel, "processed")
            of_sender, of_receiver = kept[out["sender"]], kept[out["receiver"]]
            for checkpoint in of_sender.keys() & of_receiver.keys():
                pair = of_sender[checkpoint][written], of_receiver[checkpoint][processed]
                found[number, checkpoint] = pair
        return found

    def _cuts(self, task: int) -> dict[int, dict[int, int]]:
        """By checkpoint and cell: what a task has kept."""
        cells, at = self.memory.cells, int(self.memory.tasks["checkpoints"][task])
        if at == 0:
            return {}
        held, found = view(KernelCheckpoints, cells, at), {}
        places = cells[held.cut_places : held.cut_places + held.cut_cells].tolist()
        for slot in range(CUT_SLOTS):
            first = held.cuts + slot * (1 + held.cut_cells)
            values = cells[first + 1 : first + 1 + held.cut_cells].tolist()
            if cells[first] > 0:
                found[int(cells[first])] = dict(zip(places, values, strict=True))
        return found

    def _bytes(self, number: int) -> Iterator[str]:
        wire, segment = self.wire(number), self.job.scenario.options.segment_bytes
        message = segment + t.HEADER_BYTES
        for column, first, end in (("pending", "entered", "written"), ("held", "freed", "entered")):
            found = sum(m.wire_bytes for m in self.messages(number, first, end))
            if found != getattr(wire, column):
                yield f"{column} is {getattr(wire, column)}, its messages have {found} bytes"
        sizes = [m.wire_bytes for m in self.messages(number, "delivered", "written")]
        if sizes and not t.HEADER_BYTES < min(sizes) <= max(sizes) <= message:
            yield f"messages of {min(sizes)} to {max(sizes)} bytes"
        if wire.pending > wire.high_mark + message:
            yield f"{wire.pending} bytes pending"
        if wire.held > max(wire.kernel_bytes, message):
            yield f"{wire.held} bytes in the kernel"
        if wire.pending > wire.high_mark and wire.is_writable == 1:
            yield "writable above the high mark"
        if wire.pending < wire.low_mark and wire.is_writable == 0:
            yield "not writable below the low mark"
        self.seen |= {"not writable"} if wire.is_writable == 0 else set()

    def _order(self, number: int) -> Iterator[str]:
        wire = self.wire(number)
        for columns in (("freed", "read", "entered", "written"), ("delivered", "read")):
            counts = [getattr(wire, column) for column in columns]
            if counts != sorted(counts):
                yield f"counters {counts}"
        is_staged = wire.delivered < wire.read
        if is_staged == (wire.auto_read == 1):
            yield f"auto-read is {wire.auto_read} with messages staged: {is_staged}"
        if is_staged:
            self.seen.add("staged")
            [first, *rest] = self.messages(number, "delivered", "entered")
            others = {m.channel for m in rest} - {first.channel}
            self.seen |= {"others wait"} if others else set()
            into = self.memory.ins[self.memory.outs["input"][first.channel]]
            if into["is_waiting"] != 1 or into["floating"] != 0:
                yield f"a message is staged, but its channel is {into}"

    def _channels(self) -> Iterator[str]:
        """What a channel's receiver has, and has had, are its messages in their order."""
        for number, out in enumerate(self.memory.outs):
            if out["is_local"] == 1:
                continue
            into = self.memory.ins[out["input"]]
            gate = gate_of(self.memory.head, int(out["gate"]))
            messages = in_order(gate.queues[int(out["index"])])
            kinds = [message.kind for message in messages]
            queued = [message.records for message in messages if message.kind <= SPANNING_DATA]
            arrived = int(into["arrived"])
            if queued != self.written[number][arrived - len(queued) : arrived]:
                yield f"channel {number} has {queued}, which is not what was sent"
            if END_OF_PARTITION in kinds:
                self.seen.add("end queued")
                before = kinds[: kinds.index(END_OF_PARTITION)]
                data = sum(kind <= SPANNING_DATA for kind in before)
                if number not in self.ended or data != len(queued):
                    yield f"channel {number} has the end before its data"
            if number in self.late:
                yield f"channel {number} goes on behind its end"
            if into["unannounced"] != 0 or into["floating"] != 0:
                yield f"channel {number} keeps something: {into}"
