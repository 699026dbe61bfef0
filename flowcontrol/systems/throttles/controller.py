"""The controller of a throttle: the figures of a job that it gets, and its answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from flowcontrol.protocol.service import MOST
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.state.declared import Kept

# --- What all controllers have in common: what they see and say, when they look, what is kept


NEVER = 1 << 62
"""A time that does not come, microseconds: no look is due."""


class SourceObservation(NamedTuple):
    """One source subtask at the end of a round."""

    stage: str  # stage, subtask: which
    subtask: int
    emitted: int  # Records that it has emitted into the job so far
    # Records that wait in the log before it, offered and not yet emitted; 0 if it has none.
    log: int
    offered: int  # Records that fell due so far
    rate: float  # What it is offered now, records/s; of a source that reads a log, what it can read


class TaskObservation(NamedTuple):
    """One subtask of a stage that is not a source, at the end of a round."""

    stage: str  # stage, subtask: which
    subtask: int
    # Records that have arrived and were not taken up, and their bytes.
    queued: int
    queued_bytes: int
    taken: int  # Records taken up so far
    service_ms: float  # Time that a record takes it now, ms; 0 if no rate is stated


class JobObservation(NamedTuple):
    """A whole job at the end of a round."""

    now_us: int  # The end of that round, microseconds
    sources: tuple[SourceObservation, ...]  # Always the same subtasks, in the same order
    tasks: tuple[TaskObservation, ...]  # Likewise
    # Nothing that was emitted is unfinished: no record is under way, queued or in service.
    is_empty: bool
    arrived: int  # Records that sinks have taken up so far
    # End of the round in which the oldest record was emitted that no sink has taken up, so a record
    # of this very round has ``now_us``; -1 if there is none.
    oldest_us: int


class Command(NamedTuple):
    """What a source subtask does from the next round on, until it is told otherwise."""

    is_stopped: int  # 1: it emits nothing
    gap_ns: int  # Least time between two emissions, ns; 0: none
    # With a log, records that it may ever have emitted: cumulative, never falls. -1: no limit.
    admitted: int


GO = Command(0, 0, -1)
"""Emit as you can."""

STOP = Command(1, 0, -1)
"""Emit nothing."""


class ControllerSettings(NamedTuple):
    """What a controller is made from."""

    values: Mapping[str, float]  # Every parameter of the throttle
    round_us: int  # Length of a round, microseconds
    # By stage that is not a source, the source stages from which it can be reached.
    spouts_above: Mapping[str, Sequence[str]]


class Controller(Kept, ABC):
    """What slows the sources of a job.

    The clock asks :meth:`first` before round 0, and then calls :meth:`observe` at the end of the
    first round that ends at or after :meth:`next_look_us`. While :attr:`wants_empty` is true it
    also calls at the end of every round in which the job is empty.

    - ``look_us``: when it looks next, microseconds.
    - ``found_nothing``: when it last looked a trigger fell due, and made no batch of what waits.
    - ``messages``: control messages sent so far, counted once per receiver: claims, events, rates.
      What a message is, each controller says.
    - ``spoken``: those that it sent when it last observed: what it is (a key of ``Part.messages``),
      the stage and the subtask that hears it, or that says it to the controller; 1: it is heard.
    """

    _kept: ClassVar[tuple[str, ...]] = ("messages", "spoken", "look_us")

    def __init__(self, settings: ControllerSettings, interval: str = "interval_ms") -> None:
        # Between two looks is at least a round, for none is finer.
        interval_us = round(settings.values[interval] * 1000)
        self._round_us = settings.round_us
        self._interval_us = self.look_us = max(interval_us, settings.round_us)
        self.messages = 0
        self.spoken: list[list[Any]] = []
        self.found_nothing = False

    @property
    def wants_empty(self) -> bool:
        """Whether it must also be called as soon as the job is empty."""
        return False

    def first(self, sources: Sequence[SourceObservation]) -> list[Command]:
        """Return a command for each source, in force from round 0 on; by default all may emit."""
        return [GO] * len(sources)

    def next_look_us(self) -> int:
        """Return the time of its next look, microseconds; :data:`NEVER` if none is due."""
        return self.look_us

    @abstractmethod
    def observe(self, job: JobObservation) -> list[Command]:
        """Return a command for each source, in the order of ``job.sources``.

        ``seen``: the job at the end of a round, later than the one before.
        """

    def look(self, job: JobObservation) -> list[Command]:
        """Observe, and note what is said then and not what was said before."""
        self.spoken = []
        return self.observe(job)

    def _hear(self, what: str, one: SourceObservation | TaskObservation) -> None:
        """Note a message from a task."""
        self.messages += 1
        self.spoken.append([what, one.stage, one.subtask, 0])

    def _tell(self, what: str, one: SourceObservation | TaskObservation) -> None:
        """Note a message to a task."""
        self.messages += 1
        self.spoken.append([what, one.stage, one.subtask, 1])

    def _is_due(self, job: JobObservation) -> bool:
        """Tell whether it is time for a look; the next is at a multiple, so none drifts."""
        is_due = job.now_us >= self.look_us
        if is_due:
            self.look_us = (job.now_us // self._interval_us + 1) * self._interval_us
        return is_due


NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def rate_gap_ns(rate: float) -> int:
    """Return the time between two emissions at a rate, records/s, rounded up: never faster.

    A rate so low that no run sees a second emission gives the longest time, ``MOST``.
    """
    return MOST if rate * MOST <= NS_PER_S else -int(-NS_PER_S // rate)


def sleep_gap_ns(sleep_ms: int, rate: float) -> int:
    """Return the time between two emissions of a source that sleeps after each; 0: no sleep.

    ``rate``: what it emits without, records/s: its own time for a record is added. 0: none to add.
    """
    if sleep_ms <= 0:
        return 0
    own = rate_gap_ns(rate) if rate > 0 else 0
    return sleep_ms * NS_PER_MS + own


# --- Batches that are read from the log before the sources and run one at a time


class Batches(Controller):
    """Admit a batch, wait until the job is empty, admit the next.

    A batch is done at the end of the first round at which all its records were emitted and nothing
    is unfinished in the job; so it takes a round at least. Its first record is emitted after
    ``start_ms``, when it begins already.

    - ``admitted``: what all batches that have begun have of each source.
    - ``opened``: what the sources may emit of it.
    """

    _kept: ClassVar[tuple[str, ...]] = ("admitted", "opened", "is_running", "begun_us")

    def __init__(self, settings: ControllerSettings) -> None:
        super().__init__(settings)
        self._start_us = round(settings.values["start_ms"] * 1000)
        self.admitted: list[int] = []
        self.opened: list[int] = []
        self.is_running = False
        self.begun_us = 0

    @property
    def wants_empty(self) -> bool:
        """True while the records of a batch are under way."""
        return self.is_running and self.opened == self.admitted

    def next_look_us(self) -> int:
        """Return the next look, or when the first record of a batch is due, if that is sooner."""
        if self.opened == self.admitted:
            return self.look_us
        return min(self.look_us, self.begun_us + self._start_us)

    def first(self, sources: Sequence[SourceObservation]) -> list[Command]:
        """Let nothing be emitted before the first batch."""
        self.admitted = self.opened = [0] * len(sources)
        return self._commands()

    def observe(self, job: JobObservation) -> list[Command]:
        """End a batch that is done, then form and begin what it is time for."""
        if self.is_running and self._is_done(job):
            self.is_running = False
            self._end(job)
        self._form(job)
        if job.now_us >= self.begun_us + self._start_us:
            self.opened = self.admitted
        return self._commands()

    def _is_done(self, job: JobObservation) -> bool:
        pairs = zip(job.sources, self.admitted, strict=True)
        return job.is_empty and all(source.emitted >= most for source, most in pairs)

    def _begin(self, sizes: Sequence[int], now_us: int) -> None:
        self.admitted = [most + size for most, size in zip(self.admitted, sizes, strict=True)]
        self.is_running = True
        self.begun_us = now_us

    def _commands(self) -> list[Command]:
        return [Command(0, 0, most) for most in self.opened]

    @abstractmethod
    def _end(self, job: JobObservation) -> None:
        """Take notice of a batch that is done."""

    @abstractmethod
    def _form(self, job: JobObservation) -> None:
        """Form and begin batches."""


def waiting(job: JobObservation, planned: Sequence[int]) -> list[int]:
    """Return how many records of each source's log no batch has yet, by what batches have."""
    pairs = zip(job.sources, planned, strict=True)
    return [max(0, source.emitted + source.log - most) for source, most in pairs]


# --- The controller of a throttle: ``CONTROLLER`` of the module of its name.


def check_values(throttle: str, values: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return what is wrong with the parameters of a throttle: parameter and message, each.

    - ``throttle``: a key of ``THROTTLE_PARTS``.
    - ``values``: parameters that are stated; the others have their defaults.

    Raises ValueError if there is no such throttle.
    """
    if throttle not in THROTTLE_PARTS:
        names = ", ".join(THROTTLE_PARTS)
        raise ValueError(f"{throttle!r} is not the name of a throttle: write one of {names}")
    table = THROTTLE_PARTS[throttle].parameters
    wrong = []
    for key, value in values.items():
        if key not in table:
            names = ", ".join(table) or "none"
            wrong.append((key, f"{throttle} has no such parameter; it has {names}"))
        elif not table[key].least <= value <= table[key].most:
            least, most = table[key].least, table[key].most
            wrong.append((key, f"{value:g} is not within {least:g} and {most:g}"))
    full = _full(throttle, values)
    for low, high in THROTTLE_PARTS[throttle].not_above:
        if full[low] > full[high]:
            text = f"{full[low]:g} is above {high}, which is {full[high]:g}: lower the one or raise"
            wrong.append((low, f"{text} the other"))
    return wrong


def make_controller(
    throttle: str,
    values: Mapping[str, float],
    *,
    round_us: int,
    spouts_above: Mapping[str, Sequence[str]],
) -> Controller | None:
    """Return the controller of a throttle, at rest.

    - ``throttle``: a key of ``THROTTLE_PARTS``.
    - ``values``: parameters that are stated; the others have their defaults.
    - ``round_us``: length of a round, microseconds.
    - ``spouts_above``: by stage that is not a source, the source stages from which it can be
      reached.

    Returns None for ``none``: sources emit as they can. Raises ValueError if there is no such
    throttle, if a parameter is wrong, or if the round is not positive.
    """
    wrong = [f"{throttle}.{key}: {message}" for key, message in check_values(throttle, values)]
    if wrong:
        raise ValueError("; ".join(wrong))
    if round_us <= 0:
        raise ValueError(f"round_us is {round_us}: a round must be longer than nothing")
    if throttle == "none":
        return None
    settings = ControllerSettings(_full(throttle, values), round_us, spouts_above)
    module = import_module(f"{__package__}.{throttle}")
    made: Controller = module.CONTROLLER(settings)
    return made


def _full(throttle: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return every parameter's value: what is stated, else the default."""
    table = THROTTLE_PARTS[throttle].parameters
    return {key: float(values.get(key, part.default)) for key, part in table.items()}
