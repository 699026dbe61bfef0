"""The alignment of a group of sources as an object: checks arguments."""

from collections.abc import Hashable

from flowcontrol.protocol.event_time import alignment_rules as rules
from flowcontrol.protocol.event_time.actions import checked
from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.event_time.states import AlignedSource


class SourceAlignment:
    """A group of sources of which none may be too far ahead (``withWatermarkAlignment``).

    Parameters
    ----------
    drift : int
        How far a subtask may be ahead of the last, ms, at least 0.

    Raises
    ------
    ValueError
        If it is negative.

    Notes
    -----
    Flink's ``SourceCoordinator``. The rules are in
    :mod:`flowcontrol.protocol.event_time.alignment_rules`; what a subtask reports is
    :func:`~flowcontrol.protocol.event_time.alignment_rules.report_of`: MAX_TIME if it is idle or
    has finished, and nothing before its first watermark.

    Examples
    --------
    >>> group = SourceAlignment(drift=1_000)
    >>> group.report("fast", 9_000), group.report("slow", 5_000)
    (10000, 6000)
    >>> group.is_paused("fast", 9_000), group.is_paused("slow", 6_000)
    (True, False)
    """

    def __init__(self, drift: int) -> None:
        if checked("drift", drift) < 0:
            raise ValueError(f"drift is {drift} ms: needs at least 0")
        self._drift = drift
        self._sources: dict[Hashable, AlignedSource] = {}
        self._allowed = MAX_TIME

    @property
    def allowed(self) -> int:
        """The watermark allowed last, ms; MAX_TIME before the first report."""
        return self._allowed

    def report(self, subtask: Hashable, watermark: int) -> int:
        """Take the report of a subtask, in the place of its last one.

        Parameters
        ----------
        subtask : hashable
            A subtask of a source of the group; it counts from its first report on.
        watermark : int
            Ms.

        Returns
        -------
        int
            Watermark that is allowed now, ms: the least report + drift, at most MAX_TIME.

        Raises
        ------
        ValueError
            If the watermark does not fit into 64 bits.
        """
        at = checked("watermark", watermark)
        rules.note_report(self._sources.setdefault(subtask, AlignedSource()), at)
        self._allowed = rules.allowed_watermark(list(self._sources.values()), self._drift)
        return self._allowed

    def is_paused(self, subtask: Hashable, watermark: int) -> bool:
        """Tell whether a subtask with a watermark emits nothing, as the group's last allowed says.

        Parameters
        ----------
        subtask : hashable
            Which one; all have the same limit.
        watermark : int
            Its watermark now, ms, which need not be reported yet.
        """
        return rules.must_pause(watermark, self._allowed) == 1
