"""Spark's real-time mode: a batch lasts for minutes, then its sources wait until it is done.

``RealTimeModeAllowlist``, ``MicroBatchExecution`` and the source tasks of Spark 4.3. The driver
fixes the end of a batch when it plans it. From then on a source task reads no more rows; each
writer sends what it has, a termination behind it, and waits for all readers. Offsets and state are
committed once all have ended, so a failure reads all of the batch again.

Where this differs from Spark:

- State commit, logs and planning of the next batch are one figure, ``overhead_ms``, 0 by default.
- A batch whose records are done at its end takes no more than the round in which that is seen.
- What Spark sends at once at the end of a batch, the open buffers, goes out with the flusher here.
"""

from flowcontrol.systems.throttles import controller as c


class LongBatches(c.Controller):
    """Stop the sources at the end of a batch, and let them go on when the job is empty.

    There are no messages: every source knows the end of its batch.
    """

    _kept = ("is_draining", "is_waiting")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings, "batch_ms")
        self._overhead_us = round(settings.values["overhead_ms"] * 1000)
        self.is_draining = False
        self.is_waiting = False  # for the next batch

    @property
    def wants_empty(self) -> bool:
        """True from the end of a batch until it is done."""
        return self.is_draining

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """End a batch whose time is over, note that it is done, begin the next one."""
        is_due = job.now_us >= self.look_us
        if is_due and not self.is_waiting:
            self.is_draining, self.look_us = True, c.NEVER
        if self.is_draining and job.is_empty:
            self.is_draining, self.is_waiting = False, True
            self.look_us = job.now_us + self._overhead_us
        if self.is_waiting and job.now_us >= self.look_us:
            self.is_waiting = False
            self.look_us = job.now_us + self._interval_us
        is_stopped = self.is_draining or self.is_waiting
        return [c.STOP if is_stopped else c.GO] * len(job.sources)


CONTROLLER = LongBatches
