"""Reference runs with checkpoints, and the cut that each checkpoint makes through the channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flowcontrol.job import Job
from flowcontrol.job.channel_state import ChannelId
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.reference import RoundRows, control_of, new_subtasks, run_rounds
from flowcontrol.job.subtask import Subtask
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, DECLINED, FINISHED
from flowcontrol.protocol.event_time.marks import mark_bytes
from flowcontrol.protocol.queues import KINDS, is_event
from flowcontrol.protocol.states import CheckpointReport


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


class CheckpointRun:
    """A reference run that can be looked into.

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

    def __init__(self, job: Job) -> None:
        self.job, self.control = job, CheckpointControl(job)
        self.subtasks = new_subtasks(job)
        self.cuts: dict[int, Cut] = {}
        self.reports: list[CheckpointReport] = []
        self.finished: dict[ChannelId, int] = {}
        self.seen: Counter[str] = Counter()
        self.put: Counter[ChannelId] = Counter()
        self.taken: Counter[ChannelId] = Counter()
        for subtask in self.subtasks:
            self._watch_marks(subtask)
            subtask.on_snapshot = lambda number, own=subtask: self._snapshot(own, number)

    def rounds(self) -> Iterator[RoundRows]:
        """Run the job round by round."""
        control = control_of(self.job, self.subtasks)
        if control is not None:
            control.start()
        for batch in run_rounds(self.job, self.subtasks, control, checkpoints=self.control):
            for subtask in self.subtasks:
                self._after_round(subtask)
            yield batch

    def run(self) -> list[RoundRows]:
        """Run the job to its end."""
        return list(self.rounds())

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

    def _watch_marks(self, subtask: Subtask) -> None:
        """Count the bytes of what enters and leaves channels besides records."""
        note, drop = subtask.note_mark, subtask.drop_mark

        def put(writer: Any, channel: int, kind: int, watermark: int) -> None:
            number = next(i for i, one in enumerate(subtask.partitions) if one is writer.partition)
            link, own = subtask.out_links[number]
            for one in own if writer.partition.is_broadcast else [own[channel]]:
                self.put[ChannelId(link.name, one.sender, one.receiver)] += mark_bytes(kind)
            note(writer, channel, kind, watermark)

        def take() -> None:
            link, own = subtask.in_links[subtask.task.gate]
            one = own[subtask.task.channel]
            self.taken[ChannelId(link.name, one.sender, one.receiver)] += mark_bytes(
                subtask.mark_kind()
            )
            drop()

        subtask.note_mark, subtask.drop_mark = put, take

    def _cut(self, checkpoint: int) -> Cut:
        return self.cuts.setdefault(checkpoint, Cut())

    def _snapshot(self, subtask: Subtask, checkpoint: int) -> None:
        cut = self._cut(checkpoint)
        for name, own in _outputs(subtask):
            cut.written[name] = own.written * _record_bytes(subtask, name) + self.put[name]
        first = 0
        for (link, channels), gate in zip(subtask.in_links, subtask.gates, strict=True):
            for channel, own in zip(channels, gate.channels, strict=True):
                name = ChannelId(link.name, channel.sender, channel.receiver)
                cut.processed[name] = own.processed * link.record_bytes + self.taken[name]
            first += len(channels)

    def _after_round(self, subtask: Subtask) -> None:
        rows = subtask.checkpoints
        assert rows is not None
        for report in rows.reports:
            self.reports.append(report)
            if report.kind == ACKNOWLEDGED:
                self._note_persisted(subtask, report)
            elif report.kind == DECLINED:
                self.seen[f"declined {report.reason}"] += 1
            elif report.kind == FINISHED:
                self.seen["finished"] += 1
                for name, own in _outputs(subtask):
                    self.finished[name] = (
                        own.written * _record_bytes(subtask, name) + self.put[name]
                    )
        self._note_events(subtask)

    def _note_persisted(self, subtask: Subtask, report: CheckpointReport) -> None:
        cut, total = self._cut(report.checkpoint), 0
        assert subtask.checkpoints is not None
        channels = iter(subtask.checkpoints.channels)
        for link, own in subtask.in_links:
            for channel in own:
                found = next(channels).persisted
                cut.persisted[ChannelId(link.name, channel.sender, channel.receiver)] += found
                total += found
        for name, out in _outputs(subtask):
            cut.persisted[name] += out.persisted
            total += out.persisted
        assert total == report.persisted
        self.seen["acknowledged"] += 1
        self.seen["persisted"] += total > 0

    def _note_events(self, subtask: Subtask) -> None:
        rows = subtask.checkpoints
        assert rows is not None
        self.seen["blocked channel"] += any(one.is_blocked for one in rows.channels)
        self.seen["waits for outputs"] += rows.state.waits_outputs
        self.seen["waits for inputs"] += rows.state.waits_inputs
        self.seen["trigger waits"] += rows.triggers.ends.count > 0
        self.seen["end in alignment"] += rows.alignment.is_pending == 1 and any(
            one.is_open == 0 and one.has_delivered == 1 for one in rows.channels
        )
        kind = rows.alignment.kind
        self.seen["switched"] += (
            rows.alignment.is_unaligned == 1 and kind == 1 and rows.alignment.is_pending == 1
        )
        for sent in subtask.messages:
            for messages in sent:
                self.seen.update(KINDS[one.kind].name for one in messages if is_event(one))
        for part in subtask.partitions:
            self.seen["blocked subpartition"] += any(one.is_blocked for one in part.channels)
            self.seen["output overtaken"] += any(one.persisted > 0 for one in part.channels)


def _outputs(subtask: Subtask) -> Iterator[tuple[ChannelId, Any]]:
    for (link, channels), part in zip(subtask.out_links, subtask.partitions, strict=True):
        for channel, own in zip(channels, part.channels, strict=True):
            yield ChannelId(link.name, channel.sender, channel.receiver), own


def _record_bytes(subtask: Subtask, name: ChannelId) -> int:
    [found] = [link.record_bytes for link, _ in subtask.out_links if link.name == name.edge]
    return found
