"""A generator of watermarks as an object: checks arguments, and returns what each call gave out."""

from flowcontrol.protocol.event_time import generator_rules as rules
from flowcontrol.protocol.event_time.actions import checked
from flowcontrol.protocol.event_time.output_rules import WATERMARK
from flowcontrol.protocol.event_time.states import Generator


class WatermarkGenerator:
    """What makes the watermarks of a source or of one of its splits.

    All times are whole milliseconds.

    Parameters
    ----------
    out_of_orderness : int
        How far behind the latest event another may be, at least 0; 0: ascending times
        (``forBoundedOutOfOrderness``, ``forMonotonousTimestamps``).
    punctuated : bool, default False
        Each event is a watermark, at once; ``out_of_orderness`` counts for nothing then.
    idle_ms : int, optional
        Time without events after which it is idle, more than 0 (``withIdleness``); by default
        never.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Flink's ``BoundedOutOfOrdernessWatermarks`` and ``WatermarksWithIdleness``. The rules are in
    :mod:`flowcontrol.protocol.event_time.generator_rules`.

    Examples
    --------
    >>> generator = WatermarkGenerator(out_of_orderness=10, idle_ms=300)
    >>> generator.event(now=5, timestamp=1_000)
    >>> [generator.probe(now) for now in (200, 400, 600, 800)]
    [989, None, None, 'idle']
    """

    def __init__(
        self, out_of_orderness: int, punctuated: bool = False, idle_ms: int | None = None
    ) -> None:
        if checked("out_of_orderness", out_of_orderness) < 0:
            raise ValueError(f"out_of_orderness is {out_of_orderness} ms: needs at least 0")
        if idle_ms is not None and checked("idle_ms", idle_ms) <= 0:
            raise ValueError(f"idle_ms is {idle_ms}: needs more than 0, or None for never")
        self._state = Generator(
            out_of_orderness=out_of_orderness,
            is_punctuated=int(punctuated),
            idle_after=idle_ms or 0,
        )

    @property
    def watermark(self) -> int:
        """The last watermark; MIN_TIME before the first."""
        return self._state.watermark

    @property
    def is_idle(self) -> bool:
        """Whether it is idle for those downstream: from "idle" to the next watermark."""
        return self._state.is_idle == 1

    def event(self, now: int, timestamp: int) -> int | None:
        """Take an event.

        Parameters
        ----------
        now : int
            Time; it does not matter.
        timestamp : int
            Event time.

        Returns
        -------
        int or None
            A watermark, only if punctuated: the event's time, if it is the latest so far.

        Raises
        ------
        ValueError
            If the event time does not fit into 64 bits.
        """
        return self._given(rules.on_event(self._state, checked("event time", timestamp)))

    def probe(self, now: int) -> int | str | None:
        """Probe it, as Flink does every ``pipeline.auto-watermark-interval``.

        Parameters
        ----------
        now : int
            Time of the clock that idleness follows.

        Returns
        -------
        int, "idle" or None
            A watermark if it is later than the last one; ``"idle"`` at the first probe that finds
            it idle since the last event.

        Notes
        -----
        An event after ``"idle"`` starts idleness anew. Those downstream see activity only with the
        next watermark (:attr:`is_idle`), as in Flink.
        """
        was_quiet = self._state.is_quiet
        done = rules.on_probe(self._state, now)
        return "idle" if self._state.is_quiet > was_quiet else self._given(done)

    def _given(self, done: int) -> int | None:
        return self._state.watermark if done & WATERMARK else None
