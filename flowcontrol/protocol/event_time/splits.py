"""The splits of a source as an object: checks arguments, and lists what each call gave out."""

from collections.abc import Hashable

from flowcontrol.protocol.event_time import split_rules as rules
from flowcontrol.protocol.event_time.actions import Output, checked, listed
from flowcontrol.protocol.event_time.states import Split, WatermarkOutput


class SplitWatermarks:
    """One watermark out of those of a source's splits: the least of the active ones.

    Calls return what they gave out, in order: watermarks, ms, ``"idle"`` and ``"active"``. A split
    that was idle is active with its next watermark; downstream hear ``"active"`` with the next
    watermark of the source.

    Notes
    -----
    Flink's ``WatermarkOutputMultiplexer``. The rules are in
    :mod:`flowcontrol.protocol.event_time.split_rules`.

    Examples
    --------
    >>> splits = SplitWatermarks()
    >>> splits.add("a"), splits.add("b")
    (None, None)
    >>> splits.update("a", 20), splits.update("b", 10)
    ([], [10])
    >>> splits.idle("b"), splits.idle("a"), splits.update("b", 30)
    ([20], ['idle'], ['active', 30])
    """

    def __init__(self) -> None:
        self._output = WatermarkOutput()
        self._splits: list[Split] = []
        self._places: dict[Hashable, int] = {}

    @property
    def watermark(self) -> int:
        """The source's last watermark; MIN_TIME before the first."""
        return self._output.watermark

    @property
    def is_idle(self) -> bool:
        """Whether the source is idle for those downstream."""
        return self._output.is_idle == 1

    def add(self, id: Hashable) -> None:
        """Take a new split, which holds the source back until it has a watermark or is idle.

        Raises
        ------
        ValueError
            If there is one with this id.
        """
        if id in self._places:
            raise ValueError(f"split {id!r} is there already: remove it first")
        free = (place for place, split in enumerate(self._splits) if split.is_known == 0)
        place = next(free, len(self._splits))
        if place == len(self._splits):
            self._splits.append(Split())
        self._places[id] = place
        rules.add_split(self._splits[place])

    def remove(self, id: Hashable) -> bool:
        """Forget a split; return whether it was known. Only the next probe shows what changes."""
        place = self._places.pop(id, None)
        if place is None:
            return False
        rules.remove_split(self._splits[place])
        return True

    def update(self, id: Hashable, watermark: int, deferred: bool = False) -> list[Output]:
        """Take the watermark of a split.

        Parameters
        ----------
        id : hashable
            A split.
        watermark : int
            Ms; one that is not later than its last makes it active and no more.
        deferred : bool, default False
            Only the next probe gives out what follows, as of periodic generators.

        Returns
        -------
        list of int or str
            What was given out.

        Raises
        ------
        ValueError
            If there is no such split, or the watermark does not fit into 64 bits.
        """
        args = self._splits, self._place(id), checked("watermark", watermark), int(deferred)
        return listed(rules.on_split_watermark(self._output, *args), self._output)

    def idle(self, id: Hashable) -> list[Output]:
        """Take the idleness of a split; return what was given out: the source may be idle by that.

        Raises
        ------
        ValueError
            If there is no such split.
        """
        place = self._place(id)
        return listed(rules.on_split_idle(self._output, self._splits, place), self._output)

    def probe(self) -> list[Output]:
        """Give out what deferred watermarks and removed splits changed (``onPeriodicEmit``)."""
        return listed(rules.combine(self._output, self._splits), self._output)

    def _place(self, id: Hashable) -> int:
        if id not in self._places:
            raise ValueError(f"split {id!r} is unknown: add it first")
        return self._places[id]
