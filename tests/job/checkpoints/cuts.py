"""Runs with checkpoints, and the cut that each checkpoint makes through the channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from flowcontrol.kernel import views as v
from flowcontrol.kernel.views import inputs_of, outputs_of
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, DECLINED, FINISHED
from flowcontrol.protocol.event_time import mark_bytes
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.queues import KINDS, is_event
from flowcontrol.trace.channel_state import ChannelId
from flowcontrol.trace.round_state import RoundState, TaskState
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")


@dataclass
class Cut:
    """What a checkpoint holds of the channels: bytes, by channel.

    Attributes
    ----------
    written : dict of ChannelId to int
        Written by the sender before its barrier.
    processed : dict of ChannelId to int
        Processed by the receiver when it took the checkpoint.
    persisted : Counter of ChannelId
        Persisted by either side.
    """

    written: dict[ChannelId, int] = field(default_factory=dict)
    processed: dict[ChannelId, int] = field(default_factory=dict)
    persisted: Counter[ChannelId] = field(default_factory=Counter)


class CheckpointRun(watched_runs.WatchedRun):  # type: ignore[misc]
    """A run that can be looked into; unless it ``may_fail`` nothing does.

    Attributes
    ----------
    control : CheckpointControl
        Its coordinator.
    cuts : dict of int to Cut
        By checkpoint.
    reports : list of CheckpointReport
        All that tasks have told the coordinator.
    finished : dict of ChannelId to int
        Bytes written to the channels whose sender has finished.
    put, taken : Counter of ChannelId
        Bytes of watermarks and statuses that were put into channels, and taken out of them.
    seen : Counter of str
        What has happened that makes a run count.
    """

    def __init__(self, job: Job, *, may_fail: bool = False) -> None:
        super().__init__(job if may_fail else replace(job, faults=None))
        self.control = self.checkpoints
        self.cuts: dict[int, Cut] = {}
        self.reports: list[CheckpointReport] = []
        self.finished: dict[ChannelId, int] = {}
        self.seen: Counter[str] = Counter()
        self.put: Counter[ChannelId] = Counter()
        self.taken: Counter[ChannelId] = Counter()
        places = self.memory.places
        self._channels = {
            (side, int(number)): ChannelId(link.name, channel.sender, channel.receiver)
            for side, numbers in (("in", places.ins), ("out", places.outs))
            for link in job.links
            for number, channel in zip(numbers[link.name], link.channels, strict=True)
        }
        self._bytes = {link.name: link.record_bytes for link in job.links}
        self.watch("snapshot", after=self._snapshot)
        self.watch("note_mark", after=self._put)
        self.watch("drop_mark", before=self._take)

    def rounds(self) -> Iterator[RoundState]:
        """Run the job round by round."""
        for state in super().rounds():
            for task in state.tasks:
                self._after_round(task)
            yield state

    def check_cut(self, checkpoint: int) -> None:
        """Assert that a completed checkpoint is a consistent cut.

        Per channel: bytes written before the barrier = processed by the receiver + persisted.
        Where the sender had finished, all that it has ever written.
        """
        cut = self._cut(checkpoint)
        for link in self.job.links:
            for channel in link.channels:
                name = ChannelId(link.name, channel.sender, channel.receiver)
                written = cut.written.get(name, self.finished.get(name, -1))
                if name not in cut.processed:  # the receiver had finished
                    continue
                assert written == cut.processed[name] + cut.persisted[name], (checkpoint, name)

    @property
    def completed(self) -> list[int]:
        """Checkpoints that were completed."""
        own = self.control.coordinator
        return [id for id in own.ids if own.statistics(id).status == "completed"]

    def _put(self, worker: Any, writer: Any, channel: int, kind: int, watermark: int) -> None:
        """Count the bytes of what enters channels besides records."""
        last = writer.channels - 1 if writer.is_broadcast == 1 else channel
        for each in range(channel, last + 1):
            self.put[self._channels["out", writer.first_channel + each]] += mark_bytes(kind)

    def _take(self, worker: Any) -> None:
        """Count the bytes of what leaves them."""
        gate = v.gate_row(worker.m, worker.task.first_gate + worker.task.gate)
        name = self._channels["in", gate.first_channel + worker.task.channel]
        self.taken[name] += mark_bytes(worker.first_mark().kind)

    def _cut(self, checkpoint: int) -> Cut:
        return self.cuts.setdefault(checkpoint, Cut())

    def _snapshot(self, worker: Any, checkpoint: int) -> None:
        cut, m = self._cut(checkpoint), worker.m
        for number in outputs_of(self.memory, worker.number):
            name = self._channels["out", number]
            cut.written[name] = v.out_row(m, number).written * self._bytes[name.edge]
            cut.written[name] += self.put[name]
        for number in inputs_of(self.memory, worker.number):
            name = self._channels["in", number]
            cut.processed[name] = v.in_row(m, number).processed * self._bytes[name.edge]
            cut.processed[name] += self.taken[name]

    def _after_round(self, task: TaskState) -> None:
        assert task.checkpoints is not None
        for report in task.checkpoints.reports:
            self.reports.append(report)
            if report.kind == ACKNOWLEDGED:
                self._note_persisted(task, report)
            elif report.kind == DECLINED:
                self.seen[f"declined {report.reason}"] += 1
            elif report.kind == FINISHED:
                self.seen["finished"] += 1
                for name, own in _outputs(task):
                    nbytes = own.state.written * self._bytes[name.edge] + self.put[name]
                    self.finished[name] = nbytes
        self._note_events(task)

    def _note_persisted(self, task: TaskState, report: CheckpointReport) -> None:
        cut, total = self._cut(report.checkpoint), 0
        assert task.checkpoints is not None
        channels = iter(task.checkpoints.channels)
        for gate in task.gates:
            for into in gate.channels:
                found = next(channels).persisted
                cut.persisted[ChannelId(gate.edge, into.sender, into.receiver)] += found
                total += found
        for name, out in _outputs(task):
            cut.persisted[name] += out.state.persisted
            total += out.state.persisted
        assert total == report.persisted
        self.seen["acknowledged"] += 1
        self.seen["persisted"] += total > 0

    def _note_events(self, task: TaskState) -> None:
        rows, seen = task.checkpoints, self.seen
        assert rows is not None
        seen["blocked channel"] += any(one.is_blocked for one in rows.channels)
        seen["waits for outputs"] += rows.state.waits_outputs
        seen["waits for inputs"] += rows.state.waits_inputs
        seen["trigger waits"] += len(rows.triggers) > 0
        seen["end in alignment"] += rows.alignment.is_pending == 1 and any(
            one.is_open == 0 and one.has_delivered == 1 for one in rows.channels
        )
        kind = rows.alignment.kind
        seen["switched"] += (
            rows.alignment.is_unaligned == 1 and kind == 1 and rows.alignment.is_pending == 1
        )
        for _, out in _outputs(task):
            messages = [sent.message for sent in out.under_way]
            seen.update(KINDS[one.kind].name for one in messages if is_event(one))
            seen["blocked subpartition"] += out.state.is_blocked
            seen["output overtaken"] += out.state.persisted > 0


def _outputs(task: TaskState) -> Iterator[tuple[ChannelId, Any]]:
    for part in task.partitions:
        for own in part.subpartitions:
            yield ChannelId(part.edge, own.sender, own.receiver), own
