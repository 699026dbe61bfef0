"""Structured Streaming: a fixed number of rows a trigger, whatever the job does with them.

``ProcessingTimeExecutor``, ``MicroBatchExecution``, ``ReadLimit`` and its kinds,
``KafkaMicroBatchStream``, Delta's ``DeltaSource`` (Spark 3.0 to 4.2). Kafka Streams' loop
(``StreamThread.runOnce``) is the same without a trigger: a poll brings what waits, up to
``max.poll.records``, and the next one follows when those records are done. ``poll.ms`` is not a
tick: only a poll of an empty log waits so long, and the first record ends it.

Where this differs from Spark:

- What a batch costs beside its records is two figures: ``start_ms``, from the end offsets to its
  first record, and ``overhead_ms`` behind its last. Both are 0 by default; rounds stand for them
  then, since a batch takes one at least.
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

import math

from flowcontrol.systems.throttles.controller import (
    NEVER,
    Batches,
    ControllerSettings,
    JobObservation,
    waiting,
)


def is_skipped(backlog: int, least: int, since_ms: int, delay_ms: int) -> int:
    """Tell whether a trigger makes no batch: 1 if too few rows wait and too little time has passed.

    - ``backlog``, ``least``: rows that wait, and ``minOffsetsPerTrigger``; 0: none.
    - ``since_ms``, ``delay_ms``: time since the last batch, and ``maxTriggerDelay``, 15 min. Before
      the first batch the time since 1970, so that one is made.
    """
    return 1 if backlog < least and since_ms < delay_ms else 0


def partition_share(size: int, total: int, most: int) -> int:
    """Return the rows of one Kafka partition, in proportion to what waits there.

    ``KafkaMicroBatchStream.rateLimit``: limit * (size / total) in doubles, in this order. A share
    below one is rounded up, any other down, and never past the partition's end, so the sum may be a
    little more or less than ``most``; 290 of 1,000 at a limit of 100 are 28, for 290 / 1,000 * 100
    is 28.999999999999996. Nothing is special about a limit that covers all that waits: then, too, a
    partition may keep a record back.
    """
    if total < 1:
        return size
    share = most * (size / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), size)


def next_trigger(started: int, ended: int, interval: int) -> int:
    """Return when the next batch begins: at the next tick, or at once if a tick was missed.

    ``ProcessingTimeExecutor``: ticks are whole multiples of the interval.

    ``interval``: of the trigger, in the same unit of time; 0: no trigger.
    """
    if interval <= 0:
        return ended
    tick = (started // interval + 1) * interval
    return tick if ended <= tick else ended


class StaticAdmission(Batches):
    """Admit what waits, up to a limit, each time a trigger falls due and no batch runs.

    There are no messages: nothing tells the sources how the job fares.
    """

    _kept = ("stamp_us",)

    def __init__(self, settings: ControllerSettings) -> None:
        super().__init__(settings)
        values = settings.values
        if values["interval_ms"] == 0:
            self._interval_us = 0
        self._most, self._least = int(values["max_records"]), int(values["min_records"])
        self._delay_us = round(values["max_delay_ms"] * 1000)
        self._overhead_us = round(values["overhead_ms"] * 1000)
        self.stamp_us = -1  # when the log was last found to have enough, or after the delay

    def _end(self, job: JobObservation) -> None:
        """Make the next batch at the next tick, at once if that has passed."""
        ended_us = job.now_us + self._overhead_us
        self.look_us = next_trigger(self.begun_us, ended_us, self._interval_us)

    def _form(self, job: JobObservation) -> None:
        """Begin a batch if it is time and enough waits."""
        self.found_nothing = False
        if self.is_running or job.now_us < self.look_us:
            return
        now_us = job.now_us
        backlog = waiting(job, self.admitted)
        since_us = now_us - self.stamp_us if self.stamp_us >= 0 else self._delay_us
        is_skip = is_skipped(sum(backlog), self._least, since_us, self._delay_us)
        if is_skip == 0:
            self.stamp_us = now_us
        if is_skip == 1 or sum(backlog) == 0:
            self.found_nothing = True
            tick_us = next_trigger(now_us, now_us, self._interval_us)
            self.look_us = max(tick_us, now_us + self._round_us)
            return
        self._begin([self._share(size, sum(backlog)) for size in backlog], now_us)
        self.look_us = NEVER

    def _share(self, size: int, total: int) -> int:
        return partition_share(size, total, self._most) if self._most > 0 else size


CONTROLLER = StaticAdmission
