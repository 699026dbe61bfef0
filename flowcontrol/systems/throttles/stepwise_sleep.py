"""JStorm 2.1: bolts vote, a coordinator forwards, the spouts sleep longer after every tuple.

``BackpressureTrigger``, ``BackpressureCoordinator`` and ``BackpressureController`` of JStorm 2.1.1.
Times are whole milliseconds, as there. A spout's sleep has three numbers: the sleep itself, and the
largest and the smallest bound that it has had, all 0 at rest.

Where this differs from them:

- All bolts take their samples at the same times, multiples of ``interval_ms``; there each has a
  timer of its own. What bolts report at one time the coordinator takes in the order of the
  subtasks, and a period is over when it has passed, not a millisecond later.
- Events take no time: a spout sleeps from the next round on.
- The execution time is that of the bolt's rate now, not of the last tuple.
- No queue is full; JStorm's (``DisruptorQueueImpl.publish``) then blocks who sends, within the time
  of a vote if it fills so fast.
- A spout's send queue is not there, so it is not cut to a hundredth of its size either.
- A spout's own time for a record is that of the rate at which it is offered records; it is looked
  up when samples are taken.
"""

from typing import Any

from flowcontrol.systems.throttles import controller as c

START, STOP, NOTHING = 1, -1, 0

SURPRISE_MS = 5
"""An execution time that beats the largest by more than this is taken notice of at once."""


def vote(fill: float, high: float, low: float) -> int:
    """Return what a sample of a bolt's queue says: :data:`START`, :data:`STOP`, :data:`NOTHING`.

    ``high``, ``low``: marks; JStorm's are 0.8 and 0.05.
    """
    if fill > high:
        return START
    return STOP if fill <= low else NOTHING


def tally(starts: int, stops: int, samples: int, ratio: float, is_pressed: int) -> int:
    """Return what a bolt reports after its last sample.

    - ``samples``: all samples; JStorm takes 4.
    - ``ratio``: share of samples that is needed; 1 as shipped, 0.75 without a file.
    - ``is_pressed``: 1 since the bolt has reported a start, until the coordinator tells it that all
      spouts above it go at full speed again: until then it reports a stop each time.
    """
    if starts > stops and starts / samples >= ratio:
        return START
    if is_pressed == 1 and stops / samples >= ratio:
        return STOP
    return NOTHING


def is_start_due(
    elapsed: int, period: int, was_start: int, execute_ms: int, largest_ms: int
) -> int:
    """Tell whether the coordinator takes notice of a start for a spout: 1 if so.

    - ``elapsed``, ``period``: since it last took notice of one for this spout, and interval x
      samples, in one unit of time. Before the first it is due.
    - ``was_start``: 1 if that was a start.
    """
    is_surprise = execute_ms >= 0 and execute_ms > largest_ms + SURPRISE_MS
    return 1 if elapsed >= period or was_start == 0 or is_surprise else 0


def is_widespread(pressed: int, tasks: int, share: float) -> int:
    """Tell whether a start that is due is handed on to the spouts: 1 if so.

    ``share``: ``topology.backpressure.coordinator.trigger.ratio``, 0.1: very few tasks shall not
    slow the whole job.
    """
    return 1 if pressed / tasks >= share else 0


def is_stop_forwarded(elapsed: int, period: int) -> int:
    """Tell whether the coordinator hands a stop on to the spouts: 1 if so."""
    return 1 if elapsed >= period else 0


def slower(sleep: int, largest: int, smallest: int, execute_ms: int) -> tuple[int, int, int]:
    """Return a spout's sleep and bounds after a start that carries an execution time, ms."""
    if execute_ms <= 0:
        sleep += 1
    elif largest < execute_ms:
        sleep = execute_ms
    elif largest == execute_ms:
        sleep = sleep + 1 if sleep >= largest else _mean_up(execute_ms, sleep)
    elif largest <= sleep:
        sleep += 1
    elif sleep >= execute_ms:
        sleep = _mean_up(largest, sleep)
    else:
        sleep = _mean_up(execute_ms, sleep)
    return sleep, max(largest, sleep), smallest


def faster(sleep: int, largest: int, smallest: int) -> tuple[int, int, int]:
    """Return a spout's sleep and bounds after a stop, ms; all 0 when it does not sleep any more."""
    if sleep == smallest:
        smallest = 0
    sleep = (smallest + sleep) // 2
    if sleep == 0:
        return 0, 0, 0
    return sleep, largest, sleep


def _mean_up(one: int, other: int) -> int:
    return (one + other + 1) // 2


class StepwiseSleep(c.Controller):
    """Let the sources above a bolt that is under pressure sleep longer, step by step.

    Messages are the bolts' reports, what the coordinator forwards to each task of a spout, their
    report when they sleep no more, and its word to each task of the bolt then.
    """

    _kept = ("looks", "votes", "pressed", "sleeps", "known", "active")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings)
        values = settings.values
        self._slots = int(values["slots"])
        self._high, self._low = values["high"], values["low"]
        self._samples = int(values["samples"])
        self._period_us = self._interval_us * self._samples
        self._sample_rate, self._share = values["sample_rate"], values["trigger_ratio"]
        self._above = {stage: list(spouts) for stage, spouts in settings.spouts_above.items()}
        self.looks = 0
        self.votes: list[list[int]] = []  # a task's votes to start and to stop in this period
        self.pressed: list[int] = []  # whether a task waits for the end of the sleep
        # All tasks of a spout are told the same, so what one sleeps all do: sleep and bounds.
        self.sleeps: dict[str, list[int]] = {}
        # What the coordinator knows of a spout, by the bolts below it that have reported.
        self.known: dict[str, dict[str, dict[str, Any]]] = {}
        self.active: list[str] = []  # spouts to which a start was forwarded

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """Take a sample of each queue, and let the coordinator work after the last of a period."""
        tick_us = self.look_us
        if self._is_due(job):
            self._sample(job)
            self.looks += 1
            if self.looks % self._samples == 0:
                self._coordinate(job, tick_us)
        sleeps = [self.sleeps.get(source.stage, [0])[0] for source in job.sources]
        return [
            c.Command(0, c.sleep_gap_ns(sleep, source.rate), -1)
            for sleep, source in zip(sleeps, job.sources, strict=True)
        ]

    def _sample(self, job: c.JobObservation) -> None:
        if not self.pressed:
            self.pressed = [0] * len(job.tasks)
            self.votes = [[0, 0] for _ in job.tasks]
        for votes, task in zip(self.votes, job.tasks, strict=True):
            says = vote(task.queued / self._slots, self._high, self._low)
            votes[0] += says == START
            votes[1] += says == STOP

    def _coordinate(self, job: c.JobObservation, now_us: int) -> None:
        """Let every task report, hand on what is due, and let the spouts answer."""
        reports = [
            tally(votes[0], votes[1], self._samples, self._sample_rate, pressed)
            for votes, pressed in zip(self.votes, self.pressed, strict=True)
        ]
        self.votes = [[0, 0] for _ in job.tasks]
        answering: list[str] = []
        for number, (task, report) in enumerate(zip(job.tasks, reports, strict=True)):
            if report == START:
                self._hear("start", task)
                self.pressed[number] = 1
                self._start(task, job, now_us)
            elif report == STOP:
                self._hear("stop", task)
                answering += self._stop(number, task, job, now_us)
        for spout in answering:
            self._end(spout, job)

    def _start(self, task: c.TaskObservation, job: c.JobObservation, now_us: int) -> None:
        """Hear a task that is under pressure: its spouts shall sleep longer."""
        execute_ms = int(task.service_ms)
        tasks = sum(other.stage == task.stage for other in job.tasks)
        for spout in self._above[task.stage]:
            bolts = self.known.setdefault(spout, {})
            newest = max(bolts.values(), key=lambda bolt: bolt["at_us"], default=None)
            elapsed = now_us - newest["at_us"] if newest else self._period_us
            largest = max((bolt["execute_ms"] for bolt in bolts.values()), default=0)
            was_start = int(newest["says"] == START) if newest else 0
            is_due = is_start_due(elapsed, self._period_us, was_start, execute_ms, largest)
            bolt = bolts.setdefault(task.stage, {"at_us": 0, "tasks": []})
            bolt.update(execute_ms=execute_ms, says=START)
            if task.subtask not in bolt["tasks"]:
                bolt["tasks"].append(task.subtask)
            if is_due == 1:
                bolt["at_us"] = now_us
                if is_widespread(len(bolt["tasks"]), tasks, self._share) == 1:
                    self._hand_on("slower", spout, job)
                    sleep = self.sleeps.get(spout, [0, 0, 0])
                    self.sleeps[spout] = [*slower(sleep[0], sleep[1], sleep[2], execute_ms)]
                    if spout not in self.active:
                        self.active.append(spout)

    def _stop(
        self, number: int, task: c.TaskObservation, job: c.JobObservation, now_us: int
    ) -> list[str]:
        """Hear a task whose queue is short; return the spouts that do not sleep any more."""
        ended = []
        for spout in self._above[task.stage]:
            bolts = self.known.get(spout, {})
            bolt = bolts.get(task.stage)
            if bolt is None:
                continue
            bolt["tasks"] = [other for other in bolt["tasks"] if other != task.subtask]
            newest_us = max(other["at_us"] for other in bolts.values())
            if is_stop_forwarded(now_us - newest_us, self._period_us) == 1:
                bolt.update(at_us=now_us, says=STOP)
                self._hand_on("faster", spout, job)
                self.sleeps[spout] = [*faster(*self.sleeps.get(spout, [0, 0, 0]))]
                if self.sleeps[spout][0] == 0:
                    ended.append(spout)
        if not self._is_any_active(task.stage):
            self.pressed[number] = 0
            self._tell("released", task)
        return ended

    def _end(self, spout: str, job: c.JobObservation) -> None:
        """Hear that a spout's tasks sleep no more; release the bolts below that waited for it."""
        for source in job.sources:
            if source.stage == spout:
                self._hear("awake", source)
        self.active = [other for other in self.active if other != spout]
        for stage in self.known.pop(spout, {}):
            if not self._is_any_active(stage):
                for number, task in enumerate(job.tasks):
                    if task.stage == stage:
                        self.pressed[number] = 0
                        self._tell("released", task)

    def _is_any_active(self, stage: str) -> bool:
        return any(spout in self.active for spout in self._above[stage])

    def _hand_on(self, what: str, spout: str, job: c.JobObservation) -> None:
        """Tell each task of a spout."""
        for source in job.sources:
            if source.stage == spout:
                self._tell(what, source)


CONTROLLER = StepwiseSleep
