"""Back pressure by sampling, as Flink up to 1.12 found it while its page was open.

Source: ``BackPressureStatsTrackerImpl`` and ``BackPressureRequestCoordinator`` of Flink 1.12, and
the options ``web.backpressure.*`` (``reference/deployment-and-diagnosis.md`` section 5.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flowcontrol.protocol.monitoring.levels import Pressure, pressure_level


@dataclass(frozen=True)
class Stats:
    """The result of a set of samples of one vertex.

    Attributes
    ----------
    ratios : mapping of int to float
        Per subtask that was sampled: samples that waited for a buffer, of those that were taken.
    level : Pressure
        That of the worst subtask; OK if none was sampled.
    end_ms : int
        When the last sample was due.
    """

    ratios: Mapping[int, float]
    level: Pressure
    end_ms: int


@dataclass
class _Taken:
    """Samples of one subtask in a set: how many, how many of them waited, and the latest."""

    count: int = 0
    blocked: int = 0
    last: int = -1


@dataclass
class _Vertex:
    """What is known of a vertex: the set under way, the result, and when it was last accessed."""

    accessed_ms: int
    start_ms: int | None = None
    taken: dict[int, _Taken] = field(default_factory=dict)
    result: Stats | None = None


class BackPressureSampler:
    """Sets of samples of each vertex, begun when somebody asks and no fresh result is there.

    Parameters
    ----------
    samples : int, default 100
        Samples of a subtask in a set.
    delay_ms : int, default 50
        Time between two of them; the first is due at once, so a set takes (samples - 1) x delay.
    refresh_ms : int, default 60,000
        Age, from the end of its set, at which a result makes the next question start a new set.
    cleanup_ms : int, default 600,000
        Time after which a result is forgotten, from the last question or from its own arrival,
        whichever is later (Guava's ``expireAfterAccess``: putting in is an access).

    Attributes
    ----------
    samples, delay_ms, refresh_ms, cleanup_ms : int
        As given.

    Raises
    ------
    ValueError
        If ``samples`` is below 1 or a time is negative.

    Examples
    --------
    >>> sampler = BackPressureSampler(samples=2, delay_ms=50)
    >>> sampler.ask("map", now_ms=0) is None
    True
    >>> sampler.sample("map", subtask=0, blocked=True, now_ms=0)
    >>> sampler.sample("map", subtask=0, blocked=False, now_ms=50)
    >>> sampler.ask("map", now_ms=51).level
    <Pressure.LOW: 'LOW'>
    """

    def __init__(
        self,
        samples: int = 100,
        delay_ms: int = 50,
        refresh_ms: int = 60_000,
        cleanup_ms: int = 600_000,
    ) -> None:
        if samples < 1:
            raise ValueError(f"a set has at least 1 sample, not {samples}")
        times = {"delay_ms": delay_ms, "refresh_ms": refresh_ms, "cleanup_ms": cleanup_ms}
        for name, value in times.items():
            if not value >= 0:
                raise ValueError(f"{name} is at least 0 ms, not {value}")
        self.samples, self.delay_ms = samples, delay_ms
        self.refresh_ms, self.cleanup_ms = refresh_ms, cleanup_ms
        self._vertices: dict[str, _Vertex] = {}

    @property
    def length_ms(self) -> int:
        """Time from the first sample of a set to the last one."""
        return (self.samples - 1) * self.delay_ms

    def ask(self, vertex: str, now_ms: int) -> Stats | None:
        """Return the latest result; begin a set if there is none that is fresh.

        Parameters
        ----------
        vertex : str
            Its name.
        now_ms : int
            Of the question. Not before that of the last call.

        Returns
        -------
        Stats or None
            The result of the last set that was over before, however old; None if there is none,
            or it was forgotten. A set that this question begins is not waited for.
        """
        known = self._vertices.setdefault(vertex, _Vertex(now_ms))
        self._close(known, now_ms)
        if now_ms - known.accessed_ms >= self.cleanup_ms:
            known.result = None
        known.accessed_ms = now_ms
        is_fresh = known.result is not None and now_ms - known.result.end_ms < self.refresh_ms
        if known.start_ms is None and not is_fresh:
            known.start_ms, known.taken = now_ms, {}
        return known.result

    def result(self, vertex: str, now_ms: int) -> Stats | None:
        """Return the latest result as :meth:`ask` does, without a question: no set begins.

        Parameters
        ----------
        vertex : str
            Its name.
        now_ms : int
            The moment.
        """
        known = self._vertices.get(vertex)
        if known is None:
            return None
        self._close(known, now_ms)
        return known.result

    def sample(self, vertex: str, subtask: int, blocked: bool, now_ms: int) -> None:
        """Offer what a subtask is doing at a moment; it counts if a sample of it is due.

        Parameters
        ----------
        vertex : str
            Its name.
        subtask : int
            Index of the subtask.
        blocked : bool
            Whether it waits for a buffer at this moment.
        now_ms : int
            The moment. The i-th sample of a set, from 0, is due at its start + i x delay; the
            first offer from then on is that sample, and what is offered more often does not count.
        """
        known = self._vertices.get(vertex)
        if known is None or known.start_ms is None:
            return
        passed = now_ms - known.start_ms
        if not 0 <= passed <= self.length_ms:
            return
        due = passed // self.delay_ms if self.delay_ms else self.samples - 1
        own = known.taken.setdefault(subtask, _Taken())
        if (self.delay_ms and due == own.last) or own.count == self.samples:
            return
        own.last = due
        own.count += 1
        own.blocked += bool(blocked)

    def _close(self, known: _Vertex, now_ms: int) -> None:
        """Make a result of a set that was over before a moment."""
        if known.start_ms is None or now_ms <= known.start_ms + self.length_ms:
            return
        ratios = {number: one.blocked / one.count for number, one in sorted(known.taken.items())}
        level = pressure_level(max(ratios.values(), default=0.0))
        end_ms = known.start_ms + self.length_ms
        known.result = Stats(MappingProxyType(ratios), level, end_ms)
        known.accessed_ms = max(known.accessed_ms, end_ms)
        known.start_ms = None
