"""Storm 1 and Heron: one claim of pressure anywhere stops every source.

Storm 1 (``DisruptorQueue``, ``WorkerBackpressureThread``, the worker's and the executor's Clojure
code, 1.0 to 1.2) carries the switch through ZooKeeper; Heron (its stream manager) by
messages between stream managers. What differs are the unit, the marks, how often a mark must be
met, and how old a claim may be.

Where this differs from them:

- A queue is looked at every ``check_ms``, not at each insert, so it is found above a mark up to one
  look too late. Heron's looks are those of a connection at each write; here they are of what
  waits for a receiving subtask, at the ends of rounds.
- Every subtask claims for itself; Storm's claim is that of a worker, Heron's that of a stream
  manager, for all that they run. Whether anybody claims is the same.
- A claim that has grown too old ends for the sources at the next look; Storm's spouts ask again
  every 30 s at most.
- A source that hears of it stops at once. Heron's spouts go on until their sockets are full.
"""

from flowcontrol.systems.throttles import controller as c


def mark(share: float, slots: int) -> int:
    """Return a mark in whole slots, truncated: 0.9 and 0.4 of 1024 are 921 and 409."""
    return int(share * slots)


def mark_below(limit: int) -> int:
    """Return the low mark of a queue that is relieved *below* a limit, as Heron's 50 MB are."""
    return limit - 1


def is_pressed(was: int, queued: int, overflow: int, high: int, low: int) -> int:
    """Return whether a queue claims pressure: 1 at or above its high mark, 0 at or below its low.

    - ``was``: what it was; it stays so between the marks.
    - ``queued``, ``overflow``: tuples in the queue, and in the list that takes what does not fit.
    """
    waiting = queued + overflow
    if was == 0:
        return 1 if waiting >= high else 0
    return 0 if waiting <= low else 1


def batch_of(first: int, end: int, taken: int, arrived: int) -> tuple[int, int]:
    """Return the batch that a queue's consumer is at: its first tuple, and the one behind its last.

    Storm 1's takes all that is there, and a tuple counts until the whole batch is done
    (``DisruptorQueue.consumeBatchToCursor``), so the high mark is met before so many wait.

    - ``first``, ``end``: the batch when it was last looked at.
    - ``taken``, ``arrived``: tuples that the consumer has begun with so far, and that came.
    """
    return (first, end) if taken < end else (taken, arrived)


def streak(count: int, is_above: int) -> int:
    """Return how many times in a row a mark was met; Heron wants more than 3."""
    return count + 1 if is_above == 1 else 0


def is_claimed(was: int, waiting: int, high: int, low: int, met: int, consecutive: int) -> int:
    """Return whether a queue claims pressure: as :func:`is_pressed`, but it begins less readily.

    - ``waiting``: tuples or bytes that wait.
    - ``high``, ``low``: marks, in the same unit.
    - ``met``, ``consecutive``: how many times in a row the high mark was met, this time included
      (:func:`streak`), and how many are needed: 1 in Storm, 4 in Heron.
    """
    if was == 0 and met < consecutive:
        return 0
    return is_pressed(was, waiting, 0, high, low)


def is_throttled(newest_ms: int, now_ms: int, timeout_ms: int) -> int:
    """Tell whether the sources stop, by the newest claim that any worker has written: 1 if so.

    - ``newest_ms``: time of that claim; negative if there is none.
    - ``timeout_ms``: ``backpressure.znode.timeout.secs``, 30 s: a claim is written again every 15
      s, so that of a worker that has died ends. 0: a claim has no age, as in Heron.
    """
    is_fresh = timeout_ms == 0 or now_ms - newest_ms < timeout_ms
    return 1 if newest_ms >= 0 and is_fresh else 0


def may_emit(is_transfer_full: int, throttled: int, pending: int, most_pending: int) -> int:
    """Tell whether a spout is asked for its next tuple: 1 if so.

    - ``is_transfer_full``: 1 if the queue to the other workers is full.
    - ``throttled``: as :func:`is_throttled` says, when the spout last heard.
    - ``pending``, ``most_pending``: trees that are not acknowledged, and
      ``topology.max.spout.pending``; 0: no limit.
    """
    is_within = most_pending == 0 or pending < most_pending
    return 1 if is_transfer_full == 0 and throttled == 0 and is_within else 0


class GlobalHysteresis(c.Controller):
    """Stop all sources while any queue claims pressure.

    Messages are claims that are written, written again or taken back, and every source's hearing
    of a change.

    ``settings``: parameters of the throttle, and what the job is. Marks are in slots, or in bytes
    if ``high_bytes`` is positive.
    """

    _kept = ("claims", "met", "batches", "written_ms", "said", "heard", "pending")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings, "check_ms")
        values = settings.values
        self._by_bytes = values["high_bytes"] > 0
        if self._by_bytes:
            self._high = int(values["high_bytes"])
            self._low = mark_below(int(values["low_bytes"]))
        else:
            slots = int(values["slots"])
            self._high, self._low = mark(values["high"], slots), mark(values["low"], slots)
        self._consecutive = int(values["consecutive"])
        self._takes_all = values["takes_all"] == 1
        self._delay_us = [round(values[f"delay_{to}_ms"] * 1000) for to in ("off", "on")]
        self._update_ms = int(values["update_ms"])
        self._timeout_ms = int(values["timeout_ms"])
        self.claims: list[int] = []
        self.met: list[int] = []
        self.batches: list[list[int]] = []  # of each consumer, and how many had come
        self.written_ms: list[int] = []
        self.said = self.heard = 0
        self.pending: list[list[int]] = []  # when the sources hear, and what

    def next_look_us(self) -> int:
        """Return the next look at the queues, or when the sources hear, if that is sooner."""
        return min([self.look_us, *(at for at, _ in self.pending)])

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """Look at the queues if it is time; tell the sources what has reached them."""
        if self._is_due(job):
            self._look(job)
        while self.pending and self.pending[0][0] <= job.now_us:
            _, heard = self.pending.pop(0)
            if heard != self.heard:
                for source in job.sources:
                    self._tell("stop" if heard == 1 else "go", source)
            self.heard = heard
        may = may_emit(0, self.heard, 0, 0)
        return [c.GO if may == 1 else c.STOP] * len(job.sources)

    def _look(self, job: c.JobObservation) -> None:
        """Renew every queue's claim, and send word to the sources if the outcome has changed."""
        if not self.claims:
            self.claims = [0] * len(job.tasks)
            self.met = [0] * len(job.tasks)
            self.batches = [[0, 0, 0]] * len(job.tasks)
            self.written_ms = [-1] * len(job.tasks)
        now_ms = job.now_us // 1000
        for number, task in enumerate(job.tasks):
            self._claim(number, task, now_ms)
        newest = max(self.written_ms, default=-1)
        said = is_throttled(newest, now_ms, self._timeout_ms)
        if said != self.said:
            self.said = said
            at = job.now_us + self._delay_us[said]
            # Who is told reads what stands there then: word that comes later than this is of no
            # use any more.
            self.pending = [[time, word] for time, word in self.pending if time < at]
            self.pending.append([at, said])

    def _claim(self, number: int, task: c.TaskObservation, now_ms: int) -> None:
        """Let a queue claim pressure, repeat its claim or take it back."""
        waiting = task.queued_bytes if self._by_bytes else task.queued
        was = self.claims[number]
        if self._takes_all:
            population = self._population(number, task)
            waiting = population if was == 0 else waiting
        self.met[number] = streak(self.met[number], 1 if waiting >= self._high else 0)
        claims = is_claimed(
            was, waiting, self._high, self._low, self.met[number], self._consecutive
        )
        self.claims[number] = claims
        is_old = self._timeout_ms > 0 and now_ms - self.written_ms[number] >= self._update_ms
        if claims == 1 and (was == 0 or is_old):
            self.written_ms[number] = now_ms
            self._hear("claim", task)
        elif claims == 0 and was == 1:
            self.written_ms[number] = -1
            self._hear("relief", task)

    def _population(self, number: int, task: c.TaskObservation) -> int:
        """Return the tuples of a queue that count for its high mark; 0 if none came to meet it."""
        first, end, had_come = self.batches[number]
        arrived = task.taken + task.queued
        first, end = batch_of(first, end, task.taken, arrived)
        self.batches[number] = [first, end, arrived]
        return arrived - first if arrived > had_come else 0


CONTROLLER = GlobalHysteresis
