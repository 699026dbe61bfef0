"""What must hold of connections without credits after any round, from the kernel's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowcontrol.job import Job
from flowcontrol.job.ledger_rows import round_rows
from flowcontrol.protocol.queues import DATA, END_OF_PARTITION, in_order
from flowcontrol.protocol.state import width
from flowcontrol.systems import tcp_connection as t
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.connections import tcp_connection, tcp_messages
from flowcontrol.virtual.loop import advance
from flowcontrol.virtual.memory import Memory, fill
from flowcontrol.virtual.state_reader import StateReader
from flowcontrol.virtual.views import gate_of

ABOUT_CREDITS = ("more than announced", "promised")


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
        self.memory: Memory = fill(job, runs=1 << 16, ages=1 << 10, track=False)
        self.reader = StateReader(job, self.memory)
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
            self.done += 1
            assert advance(self.memory.cells, self.done) == 0
            for number in self.numbers:
                wire, ring = self.wire(number), self.ring(number)
                for i in range(self._before[number], wire.written):
                    message = ring[i % len(ring)]
                    channel = message.channel
                    if channel in self.ended:
                        self.late.add(channel)
                    if message.kind == END_OF_PARTITION:
                        self.ended.add(channel)
                    else:
                        self.written[channel].append(message.records)
                self._before[number] = wire.written

    def finish(self, rounds: int) -> None:
        """Run so many rounds more in one go."""
        self.done += rounds
        assert advance(self.memory.cells, self.done) == 0

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
        for text in accounts.violations(self.job, self.state(read, batch)):
            if not any(words in text for words in ABOUT_CREDITS):
                yield text
        for number in self.numbers:
            for text in (*self._bytes(number), *self._order(number)):
                yield f"connection {number}: {text}"
        yield from self._channels()

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
            queued = [message.records for message in messages if message.kind == DATA]
            arrived = int(into["arrived"])
            if queued != self.written[number][arrived - len(queued) : arrived]:
                yield f"channel {number} has {queued}, which is not what was sent"
            if END_OF_PARTITION in kinds:
                self.seen.add("end queued")
                if number not in self.ended or kinds.index(END_OF_PARTITION) != len(queued):
                    yield f"channel {number} has the end before its data"
            if number in self.late:
                yield f"channel {number} goes on behind its end"
            if into["unannounced"] != 0 or into["floating"] != 0:
                yield f"channel {number} keeps something: {into}"
