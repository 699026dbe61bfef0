"""A task's handler of barriers as an object: checks arguments, lists the effects of each call."""

from collections.abc import Callable

from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints import barriers as t
from flowcontrol.state.network import AlignedChannel, Alignment, TrackedCheckpoint
from flowcontrol.state.queues import in_order, new_queue

MODES = {
    "aligned": a.ALIGNED,
    "timeoutable": a.TIMEOUTABLE,
    "unaligned": a.UNALIGNED,
    "at_least_once": a.AT_LEAST_ONCE,
}
REASONS = {
    a.SUBSUMED: "CHECKPOINT_DECLINED_SUBSUMED",
    a.ON_CANCELLATION_BARRIER: "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
    a.INPUT_END_OF_STREAM: "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
}
KINDS = ("checkpoint", "savepoint")

Action = tuple[str, int] | tuple[str, int, str]


def barrier_kind(mode: int, is_savepoint: int) -> int:
    """Kind of a barrier on the inputs of a task with this mode.

    ``is_savepoint``: 1: savepoints are aligned in every mode.
    """
    return a.ALIGNED if is_savepoint == 1 else mode


def persist(alignment: Alignment, channel: AlignedChannel, nbytes: int) -> int:
    """Count bytes of a channel as persisted if they must be: 1 if so."""
    if a.must_persist(alignment, channel) == 0:
        return 0
    alignment.persisted += nbytes
    return 1


def count_processed(alignment: Alignment, nbytes: int) -> None:
    """Count bytes that the task has polled, from any channel (``addProcessedBytes``)."""
    if alignment.is_aligning == 1:
        alignment.bytes_processed += nbytes


class BarrierAligner:
    """A task's handler of barriers, over all its input channels.

    Nothing waits: ``now`` is an argument, and each call returns the actions that it caused, in
    order: ``("trigger", id, kind)`` with kind ``"aligned"``, ``"unaligned"`` or
    ``"at_least_once"``; ``("abort", id, reason)`` with a reason of Flink's; ``("resume",
    channel)``: its sender may go on; ``("overtake", channel)``: pull its announced barrier to the
    front. All times are ints of one unit, milliseconds where ``timeout_ms`` is used.

    Flink's ``SingleCheckpointBarrierHandler``, and ``CheckpointBarrierTracker`` at least once. The
    rules are in :mod:`flowcontrol.protocol.checkpoints.alignment` and, tracked,
    :mod:`flowcontrol.protocol.checkpoints.barriers`.

    - ``channels``: input channels, at least 1; they are counted from 0.
    - ``mode``: what barriers do unless a call says otherwise.
    - ``timeout_ms``: age above which a checkpoint turns unaligned, at least 0; needed if
      timeoutable.
    - ``tasks_finish``: a channel that ends counts as having delivered (FLIP-147,
      ``execution.checkpointing.checkpoints-after-tasks-finish``); else it aborts what is pending.

    Raises ValueError if an argument is out of range.

    Examples
    --------
    >>> aligner = BarrierAligner(channels=2)
    >>> aligner.barrier(now=10, channel=0, id=1, created=0)
    []
    >>> aligner.blocked
    (0,)
    >>> aligner.barrier(now=25, channel=1, id=1, created=0)
    [('trigger', 1, 'aligned'), ('resume', 0), ('resume', 1)]
    >>> aligner.start_delay, aligner.alignment
    (10, 15)
    """

    def __init__(
        self,
        channels: int,
        mode: str = "aligned",
        timeout_ms: int | None = None,
        tasks_finish: bool = True,
    ) -> None:
        if channels < 1:
            raise ValueError(f"{channels} channels: a task that aligns has at least 1")
        if mode not in MODES:
            raise ValueError(f"mode {mode!r}: choose one of {', '.join(MODES)}")
        if mode == "timeoutable" and timeout_ms is None:
            raise ValueError('mode "timeoutable" needs timeout_ms, at least 0')
        if timeout_ms is not None and timeout_ms < 0:
            raise ValueError(f"timeout_ms is {timeout_ms}: needs at least 0")
        self._state = Alignment(
            mode=MODES[mode],
            timeout=timeout_ms or 0,
            tasks_finish=int(tasks_finish),
            open_channels=channels,
        )
        self._channels = [AlignedChannel() for _ in range(channels)]
        self._tracked = new_queue(t.MOST_TRACKED, TrackedCheckpoint)

    @property
    def _counts(self) -> bool:
        return self._state.mode == a.AT_LEAST_ONCE

    @property
    def blocked(self) -> tuple[int, ...]:
        """Channels that their barrier blocks, in order."""
        return tuple(i for i, channel in enumerate(self._channels) if channel.is_blocked)

    @property
    def is_pending(self) -> bool:
        """Whether barriers of a checkpoint are missing."""
        return self._state.is_pending == 1

    @property
    def latest_id(self) -> int:
        """Newest checkpoint seen or cancelled; -1: none."""
        return self._state.latest_id

    @property
    def pending_ids(self) -> list[int]:
        """Checkpoints of which barriers are missing, oldest first.

        At least once these include aborted ones, whose barriers are still counted.
        """
        if self._counts:
            return [tracked.checkpoint for tracked in in_order(self._tracked)]
        return [self._state.latest_id] if self.is_pending else []

    @property
    def open_channels(self) -> int:
        """Channels that have not ended."""
        return self._state.open_channels

    @property
    def deadline(self) -> int | None:
        """When :meth:`tick` turns the pending checkpoint unaligned; None: never."""
        return None if self._state.deadline == a.NEVER else self._state.deadline

    @property
    def start_delay(self) -> int:
        """Age of the latest checkpoint when it was first seen."""
        return self._state.start_delay

    @property
    def alignment(self) -> int:
        """Time from first to last barrier of the last alignment; 0 while one lasts."""
        return self._state.alignment

    @property
    def bytes_processed(self) -> int:
        """Bytes polled between first and last barrier of the last alignment."""
        return self._state.bytes_processed

    @property
    def persisted(self) -> int:
        """Bytes of the latest checkpoint for which :meth:`data` returned True; 0 if aborted."""
        return self._state.persisted

    def data(self, now: int, channel: int, nbytes: int) -> bool:
        """Take data of a channel.

        ``nbytes``: bytes, at least 0.

        Returns True if an unaligned checkpoint must persist them. Raises ValueError if the channel
        is not open, or the bytes are negative.
        """
        self._open(channel)
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes on channel {channel}: needs at least 0")
        count_processed(self._state, nbytes)
        return persist(self._state, self._channels[channel], nbytes) == 1

    def announce(self, now: int, channel: int, id: int, created: int) -> list[Action]:
        """Take the announcement of a timeoutable barrier that arrived behind data.

        ``id``: checkpoint, at least 0.

        Returns actions. It begins a new checkpoint but never switches one; at least once it is
        ignored. Raises ValueError if the channel is not open, or the id is negative.
        """
        self._open(channel, id)
        if self._counts:
            return []
        args = now, id, created, self._state.mode
        return self._run(lambda: a.on_announcement(self._state, self._channels, channel, *args))

    def barrier(
        self,
        now: int,
        channel: int,
        id: int,
        created: int,
        kind: str = "checkpoint",
        unaligned: bool | None = None,
    ) -> list[Action]:
        """Take a barrier.

        - ``id``: checkpoint, at least 0.
        - ``unaligned``: whether it overtakes; by default as the mode says, and yes of a timeoutable
          one whose checkpoint has turned unaligned.

        Raises ValueError if the channel is not open, the id negative, the kind unknown; if a
        savepoint, or any barrier in mode "aligned", is unaligned. Nothing has changed then.
        """
        self._open(channel, id)
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r}: choose one of {', '.join(KINDS)}")
        own, channels = self._state, self._channels
        if self._counts:
            times = now, id, created
            return self._run(lambda: t.track_barrier(own, channels, self._tracked, channel, *times))
        args = now, id, created, self._form(id, kind, unaligned)
        return self._run(lambda: a.on_barrier(own, channels, channel, *args))

    def cancel(self, now: int, channel: int, id: int) -> list[Action]:
        """Take a cancel marker of a checkpoint from an open channel; return the actions.

        Raises ValueError if the channel is not open, or the id is negative.
        """
        self._open(channel, id)
        own, channels = self._state, self._channels
        if self._counts:
            return self._run(lambda: t.track_cancel(own, channels, self._tracked, channel, id))
        return self._run(lambda: a.on_cancel(own, channels, channel, id))

    def end_of_partition(self, now: int, channel: int) -> list[Action]:
        """Take the end of an open channel; return the actions.

        Raises ValueError if the channel is not open.
        """
        self._open(channel)
        own, channels = self._state, self._channels
        if self._counts:
            pending = self._tracked
            return self._run(lambda: t.track_end_of_partition(own, channels, pending, channel, now))
        return self._run(lambda: a.on_end_of_partition(own, channels, channel, now))

    def tick(self, now: int) -> list[Action]:
        """Turn the pending checkpoint unaligned if its deadline has come; return the actions."""
        return self._run(lambda: a.on_timer(self._state, self._channels, now))

    def _open(self, channel: int, checkpoint: int = 0) -> None:
        most = len(self._channels) - 1
        if not 0 <= channel <= most:
            raise ValueError(f"channel {channel}: the task has channels 0 to {most}")
        if self._channels[channel].is_open == 0:
            raise ValueError(f"channel {channel} has ended: nothing comes behind its end")
        if checkpoint < 0:
            raise ValueError(f"checkpoint {checkpoint} on channel {channel}: ids are at least 0")

    def _form(self, checkpoint: int, kind: str, unaligned: bool | None) -> int:
        """Kind of a barrier for the rules."""
        mode = self._state.mode
        if unaligned and (kind == "savepoint" or mode == a.ALIGNED):
            what = "a savepoint" if kind == "savepoint" else 'a checkpoint in mode "aligned"'
            raise ValueError(f"unaligned barrier of {what}, {checkpoint}: it is always aligned")
        if unaligned:
            return a.UNALIGNED
        is_savepoint = int(kind == "savepoint")
        if unaligned is not None and mode == a.UNALIGNED:
            return a.ALIGNED
        is_current = self.is_pending and checkpoint == self.latest_id
        if unaligned is None and not is_savepoint and is_current and self._state.is_unaligned == 1:
            return a.UNALIGNED
        return barrier_kind(mode, is_savepoint)

    def _run(self, call: Callable[[], int]) -> list[Action]:
        """Call a rule until it is done, and list what it did."""
        actions: list[Action] = []
        done = a.AGAIN
        while done & a.AGAIN:
            blocked = self.blocked
            before = [(channel.resumed, channel.is_overtaken) for channel in self._channels]
            done = call()
            actions += self._actions(done, blocked, before)
        return actions

    def _actions(
        self, done: int, blocked: tuple[int, ...], before: list[tuple[int, int]]
    ) -> list[Action]:
        """List what a call did: an abort with what it resumed, then the rest."""
        own = self._state
        early: list[Action] = []
        overtake: list[Action] = []
        late: list[Action] = []
        for i, (channel, (resumed, overtaken)) in enumerate(
            zip(self._channels, before, strict=True)
        ):
            times = channel.resumed - resumed
            if done & a.ABORT and i in blocked:
                early.append(("resume", i))
                times -= 1
            if times > 0:
                late.append(("resume", i))
            is_new = done & a.OVERTAKE and (done & a.ABORT or not overtaken)
            if is_new and channel.is_overtaken:
                overtake.append(("overtake", i))
        abort: list[Action] = []
        if done & a.ABORT:
            abort.append(("abort", own.aborted_id, REASONS[own.aborted_reason]))
        trigger: list[Action] = []
        if done & a.TRIGGER:
            trigger.append(("trigger", own.triggered_id, self._snapshot_kind()))
        rest = late + trigger if done & a.SWITCH else trigger + late
        return abort + early + overtake + rest

    def _snapshot_kind(self) -> str:
        if self._counts:
            return "at_least_once"
        return "unaligned" if self._state.is_unaligned == 1 else "aligned"
