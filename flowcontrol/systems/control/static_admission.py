"""Structured Streaming: a fixed number of rows a trigger, whatever the job does with them.

``ProcessingTimeExecutor``, ``MicroBatchExecution`` and ``KafkaMicroBatchStream`` of Spark 4; the
formulas are in :mod:`flowcontrol.systems.static_admission`. Kafka Streams' loop
(``StreamThread.runOnce``) is the same without a trigger: a poll brings what waits, up to
``max.poll.records``, and the next one follows when those records are done. ``poll.ms`` is no tick:
only a poll of an empty log waits so long, and the first record ends it.

Where this differs from Spark:

- A batch costs nothing beside its records: no planning, no commit. Rounds stand for that, since a
  batch takes one at least.
- Without a trigger interval the log is looked at again after a round; Spark waits 10 ms.
- The first look is at the end of the first round, or of the first interval: Spark's is at the very
  start, when nothing is there yet.

Where it differs from Kafka Streams:

- All source subtasks are partitions of one stream thread, and a poll is shared out as Spark does;
  the consumer empties what it has fetched partition by partition.
- A poll takes no time beside its records, and rounds stand for that as above.
- A poll whose records take longer than half of ``max.poll.interval.ms``, 150 s, is followed by
  another one there. Only then can a partition's buffer pass ``buffered.records.per.partition``, at
  which it is paused; here the next poll waits, so no buffer holds more than one poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flowcontrol.systems.control.batches import Batches, waiting
from flowcontrol.systems.control.controller import NEVER, interval_us
from flowcontrol.systems.control.seen import Seen
from flowcontrol.systems.static_admission import is_skipped, next_trigger, partition_share

__all__ = ["StaticAdmission"]


class StaticAdmission(Batches):
    """Admit what waits, up to a limit, each time a trigger falls due and no batch runs.

    There are no messages: nothing tells the sources how the job fares.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters.
    round_us : int
        Length of a round, microseconds.
    """

    _kept: ClassVar[tuple[str, ...]] = (*Batches._kept, "stamp_us")

    def __init__(self, values: Mapping[str, float], round_us: int) -> None:
        self._round_us = round_us
        is_timed = values["interval_ms"] > 0
        self._interval_us = interval_us(values["interval_ms"], round_us) if is_timed else 0
        super().__init__(self._interval_us or round_us)
        self._most, self._least = int(values["max_records"]), int(values["min_records"])
        self._delay_us = round(values["max_delay_ms"] * 1000)
        self.stamp_us = -1  # when the log was last found to have enough, or after the delay

    def _end(self, seen: Seen) -> None:
        """Make the next batch at the next tick, at once if that has passed."""
        self.look_us = next_trigger(self.begun_us, seen.now_us, self._interval_us)

    def _form(self, seen: Seen) -> None:
        """Begin a batch if it is time and enough waits."""
        if self.is_running or seen.now_us < self.look_us:
            return
        now_us = seen.now_us
        backlog = waiting(seen, self.admitted)
        since_us = now_us - self.stamp_us if self.stamp_us >= 0 else self._delay_us
        is_skip = is_skipped(sum(backlog), self._least, since_us, self._delay_us)
        if is_skip == 0:
            self.stamp_us = now_us
        if is_skip == 1 or sum(backlog) == 0:
            tick_us = next_trigger(now_us, now_us, self._interval_us)
            self.look_us = max(tick_us, now_us + self._round_us)
            return
        self._begin([self._share(size, sum(backlog)) for size in backlog], now_us)
        self.look_us = NEVER

    def _share(self, size: int, total: int) -> int:
        return partition_share(size, total, self._most) if self._most > 0 else size
