"""Spark Streaming with a direct stream: batches form at each interval, their rate follows a PID.

``JobGenerator``, ``JobScheduler`` (one job at a time), ``PIDRateEstimator.compute``,
``RateController``, ``RateLimiter`` and ``DirectKafkaInputDStream`` of Apache Spark's streaming
module (1.5 to 4.x). The "integral" part is not an accumulator: it is the share of the batch
interval that batches have waited, so nothing winds up. Records wait in the log; a batch names those
that it has, waits for the batches before it, and is read when it runs.

Where this differs from Spark:

- A batch ends at the end of the round in which the job is empty. If that is also the end of an
  interval, the new rate already holds for the batch that is formed then; in Spark either may be
  first by a hair.
- What a batch costs beside its records is one figure, ``start_ms``, before the first of them.
- An empty batch is not queued. Spark runs it in next to no time, and its estimator ignores it.
- Every source subtask is a partition, all of one stream: one rate is shared over them all.
"""

from collections.abc import Sequence

from flowcontrol.protocol.service import MOST
from flowcontrol.systems.throttles import controller as c
from flowcontrol.systems.throttles.controller import Batches, waiting

HIGHEST = float(MOST)
"""Rate that is told from a higher one no more, records/s."""

FIRST = -1.0
"""What rate, error and time are before the first batch."""


def pid_rate(
    rate: float,
    error: float,
    last_ms: float,
    end_ms: float,
    records: int,
    processing_ms: float,
    scheduling_ms: float,
    interval_ms: float,
    proportional: float,
    integral: float,
    derivative: float,
    floor: float,
) -> tuple[float, float, float, int]:
    """Take notice of a completed batch.

    - ``rate``, ``error``, ``last_ms``: what the call before returned; :data:`FIRST` at the
      beginning. Records/s, records/s, ms.
    - ``end_ms``: when the batch was done, ms.
    - ``processing_ms``, ``scheduling_ms``: how long it took, and how long it had waited for the
      batches before it, ms.
    - ``interval_ms``: batch interval, ms.
    - ``proportional``, ``integral``, ``derivative``: gains; Spark's are 1, 0.2 and 0.
    - ``floor``: least rate, records/s; Spark's is 100.

    Returns the rate, error and time for the next call; 1 if the rate is a result, else 0: the first
    batch only starts the estimate, and a batch that is empty or took no time changes nothing.
    """
    if end_ms <= last_ms or records <= 0 or processing_ms <= 0:
        return rate, error, last_ms, 0
    speed = records / processing_ms * 1000
    if last_ms < 0:
        return speed, 0.0, end_ms, 0
    seconds = (end_ms - last_ms) / 1000
    found = rate - speed
    waited = scheduling_ms * speed / interval_ms
    change = (found - error) / seconds
    new = rate - proportional * found - integral * waited - derivative * change
    return max(new, floor), found, end_ms, 1


def published_rate(rate: float, most: float) -> int:
    """Return the rate that receivers are told, records/s: whole, and no more than their limit.

    - ``rate``: a result of :func:`pid_rate`.
    - ``most``: ``spark.streaming.receiver.maxRate``; 0 or less: no limit.
    """
    whole = int(min(rate, HIGHEST))
    return min(whole, int(most)) if most > 0 else whole


def partition_limit(
    published: int, lag: int, total_lag: int, most_per_s: float, least: int, interval_ms: float
) -> int:
    """Return how many records of one Kafka partition the next batch may have; -1 for no limit.

    ``DirectKafkaInputDStream.maxMessagesPerPartition`` of Spark 4: shares by lag, each cut by the
    partition's limit, times the seconds of a batch. Older versions rounded the share to whole
    records a second first. Without lag nothing is shared out.

    - ``published``: rate of all partitions, records/s; 0 or less: none yet.
    - ``most_per_s``: ``maxRatePerPartition``; 0: no limit.
    - ``least``: ``minRatePerPartition``: floor of what comes out, records per batch.
    """
    if published <= 0:
        rate = most_per_s
    else:
        share = lag / total_lag * published if total_lag > 0 else 0.0
        rate = min(share, most_per_s) if most_per_s > 0 else share
    if rate <= 0:
        return -1 if published <= 0 else least
    return max(int(interval_ms / 1000 * rate), least)


LEAST_PER_PARTITION = 1
"""``minRatePerPartition``: records of a batch."""


class PidRate(Batches):
    """Form a batch each interval, no larger than the newest rate allows; run them one by one.

    Messages are the rates that the estimator publishes.
    """

    _kept = (
        "planned", "queue", "formed_us", "records",
        "rate", "error", "last_ms", "published",
    )  # fmt: skip

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings)
        values = settings.values
        self._gains = values["proportional"], values["integral"], values["derivative"]
        self._floor = values["min_rate"]
        self._most = values["max_rate"]
        self._initial = int(values["initial_rate"])
        self.planned: list[int] = []  # what all batches so far have of each source
        self.queue: list[list[int]] = []  # when a batch was formed, and its records by source
        self.formed_us = self.records = 0  # of the batch that runs
        self.rate = self.error = self.last_ms = FIRST
        self.published = int(FIRST)

    def first(self, sources: Sequence[c.SourceObservation]) -> list[c.Command]:
        """Let nothing be emitted before the first batch."""
        self.planned = [0] * len(sources)
        return super().first(sources)

    def _end(self, job: c.JobObservation) -> None:
        """Have the estimator take notice of the batch that is done."""
        interval_ms = self._interval_us / 1000
        self.rate, self.error, self.last_ms, is_result = pid_rate(
            self.rate, self.error, self.last_ms, job.now_us / 1000, self.records,
            (job.now_us - self.begun_us) / 1000, (self.begun_us - self.formed_us) / 1000,
            interval_ms, *self._gains, self._floor,
        )  # fmt: skip
        if is_result == 1:
            self.published = published_rate(self.rate, 0)
            self._tell("rate", job.sources[0])

    def _form(self, job: c.JobObservation) -> None:
        """Form a batch if an interval is over; begin the oldest if none runs."""
        if self._is_due(job):
            sizes = self._sizes(waiting(job, self.planned))
            if any(sizes):
                self.planned = [a + b for a, b in zip(self.planned, sizes, strict=True)]
                self.queue.append([job.now_us, *sizes])
        if not self.is_running and self.queue:
            self.formed_us, *sizes = self.queue.pop(0)
            self.records = sum(sizes)
            self._begin(sizes, job.now_us)

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


CONTROLLER = PidRate
