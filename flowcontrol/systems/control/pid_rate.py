"""Spark Streaming with a direct stream: batches form at each interval, their rate follows a PID.

``JobGenerator``, ``JobScheduler`` (one job at a time), ``RateController`` and
``DirectKafkaInputDStream`` of Spark 4; the formulas are in :mod:`flowcontrol.systems.pid_rate`.
Records wait in the log; a batch names those that it has, waits for the batches before it, and is
read when it runs.

Where this differs from Spark:

- A batch ends at the end of the round in which the job is empty. If that is also the end of an
  interval, the new rate already holds for the batch that is formed then; in Spark either may be
  first by a hair.
- An empty batch is not queued. Spark runs it in next to no time, and its estimator ignores it.
- Every source subtask is a partition, all of one stream: one rate is shared over them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from flowcontrol.systems.control.batches import Batches, waiting
from flowcontrol.systems.control.controller import interval_us, next_tick_us
from flowcontrol.systems.control.seen import Command, Seen, SourceSeen
from flowcontrol.systems.pid_rate import FIRST, partition_limit, pid_rate, published_rate

__all__ = ["PidRate"]

LEAST_PER_PARTITION = 1
"""``minRatePerPartition``: records of a batch."""


class PidRate(Batches):
    """Form a batch each interval, no larger than the newest rate allows; run them one by one.

    Messages are the rates that the estimator publishes.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters.
    round_us : int
        Length of a round, microseconds.
    """

    _kept: ClassVar[tuple[str, ...]] = (
        *Batches._kept, "planned", "queue", "formed_us", "records",
        "rate", "error", "last_ms", "published",
    )  # fmt: skip

    def __init__(self, values: Mapping[str, float], round_us: int) -> None:
        self._interval_us = interval_us(values["interval_ms"], round_us)
        super().__init__(self._interval_us)
        self._gains = values["proportional"], values["integral"], values["derivative"]
        self._floor = values["min_rate"]
        self._most = values["max_rate"]
        self._initial = int(values["initial_rate"])
        self.planned: list[int] = []  # what all batches so far have of each source
        self.queue: list[list[int]] = []  # when a batch was formed, and its records by source
        self.formed_us = self.records = 0  # of the batch that runs
        self.rate = self.error = self.last_ms = FIRST
        self.published = int(FIRST)

    def first(self, sources: Sequence[SourceSeen]) -> list[Command]:
        """Let nothing be emitted before the first batch."""
        self.planned = [0] * len(sources)
        return super().first(sources)

    def _end(self, seen: Seen) -> None:
        """Have the estimator take notice of the batch that is done."""
        interval_ms = self._interval_us / 1000
        self.rate, self.error, self.last_ms, is_result = pid_rate(
            self.rate, self.error, self.last_ms, seen.now_us / 1000, self.records,
            (seen.now_us - self.begun_us) / 1000, (self.begun_us - self.formed_us) / 1000,
            interval_ms, *self._gains, self._floor,
        )  # fmt: skip
        if is_result == 1:
            self.published = published_rate(self.rate, 0)
            self.messages += 1

    def _form(self, seen: Seen) -> None:
        """Form a batch if an interval is over; begin the oldest if none runs."""
        if seen.now_us >= self.look_us:
            self.look_us = next_tick_us(seen.now_us, self._interval_us)
            sizes = self._sizes(waiting(seen, self.planned))
            if any(sizes):
                self.planned = [a + b for a, b in zip(self.planned, sizes, strict=True)]
                self.queue.append([seen.now_us, *sizes])
        if not self.is_running and self.queue:
            self.formed_us, *sizes = self.queue.pop(0)
            self.records = sum(sizes)
            self._begin(sizes, seen.now_us)

    def _sizes(self, lags: list[int]) -> list[int]:
        """Return the records of each source in a new batch."""
        rate = self.published if self.published > 0 else self._initial
        limits = [
            partition_limit(rate, lag, sum(lags), self._most, LEAST_PER_PARTITION,
                            self._interval_us / 1000)
            for lag in lags
        ]  # fmt: skip
        pairs = zip(lags, limits, strict=True)
        return [lag if limit < 0 else min(lag, limit) for lag, limit in pairs]
