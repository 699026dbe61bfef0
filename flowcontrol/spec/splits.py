"""The splits of a source, as rules and as an object: one watermark out of theirs.

``output`` is what the source has given out, ``splits`` its places for splits (an indexable
sequence). Rules return what is given out (:mod:`flowcontrol.protocol.event_time.watermarks`).

Source: ``WatermarkOutputMultiplexer``, ``CombinedWatermarkStatus``; section 6 of
checkpoints-and-time.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flowcontrol.protocol.event_time.watermarks import advance, become_idle
from flowcontrol.spec.valve import Output, checked, listed
from flowcontrol.state.tasks import MAX_TIME, WatermarkOutput


@dataclass(slots=True)
class Split(WatermarkOutput):
    """A split of a source (``CombinedWatermarkStatus.PartialWatermark``): its watermark, ms."""

    is_known: int = 0
    """1: this place is taken."""


Splits: TypeAlias = Sequence[Split]


def add_split(split: Split) -> None:
    """Take a place for a new split: it holds the source back until it has a watermark."""
    split.is_known = 1
    split.is_idle = 0
    split.watermark = -MAX_TIME - 1


def remove_split(split: Split) -> None:
    """Free the place of a split. By itself that moves no watermark."""
    split.is_known = 0


def on_split_watermark(
    output: WatermarkOutput, splits: Splits, index: int, watermark: int, is_deferred: int
) -> int:
    """Take the watermark of a split, which is active by that, later or not.

    - ``watermark``: its watermark, ms.
    - ``is_deferred``: 1: only the next probe (:func:`combine`) gives it out, as of a periodic
      generator.
    """
    split = splits[index]
    split.is_idle = 0
    if watermark <= split.watermark:
        return 0
    split.watermark = watermark
    if is_deferred == 1 or watermark <= output.watermark:
        return 0
    return combine(output, splits)


def on_split_idle(output: WatermarkOutput, splits: Splits, index: int) -> int:
    """Take the idleness of a split, which may have held the others back."""
    splits[index].is_idle = 1
    return combine(output, splits)


def combine(output: WatermarkOutput, splits: Splits) -> int:
    """Give out the least watermark of the active splits; IDLE if there are splits and all are idle.

    Without splits nothing is given out.
    """
    least = MAX_TIME
    known = 0
    active = 0
    for i in range(len(splits)):
        split = splits[i]
        if split.is_known == 1:
            known += 1
            if split.is_idle == 0:
                active += 1
                least = min(least, split.watermark)
    if known == 0:
        return 0
    return become_idle(output) if active == 0 else advance(output, least)


class SplitWatermarks:
    """One watermark out of those of a source's splits: the least of the active ones.

    Calls return what they gave out, in order: watermarks, ms, ``"idle"`` and ``"active"``. A split
    that was idle is active with its next watermark; downstream hear ``"active"`` with the next
    watermark of the source.

    Flink's ``WatermarkOutputMultiplexer``.

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

        Raises ValueError if there is one with this id.
        """
        if id in self._places:
            raise ValueError(f"split {id!r} is there already: remove it first")
        free = (place for place, split in enumerate(self._splits) if split.is_known == 0)
        place = next(free, len(self._splits))
        if place == len(self._splits):
            self._splits.append(Split())
        self._places[id] = place
        add_split(self._splits[place])

    def remove(self, id: Hashable) -> bool:
        """Forget a split; return whether it was known. Only the next probe shows what changes."""
        place = self._places.pop(id, None)
        if place is None:
            return False
        remove_split(self._splits[place])
        return True

    def update(self, id: Hashable, watermark: int, deferred: bool = False) -> list[Output]:
        """Take the watermark of a split.

        ``watermark``: ms; one that is not later than its last makes it active and no more.

        Raises ValueError if there is no such split, or the watermark does not fit into 64 bits.
        """
        args = self._splits, self._place(id), checked("watermark", watermark), int(deferred)
        return listed(on_split_watermark(self._output, *args), self._output)

    def idle(self, id: Hashable) -> list[Output]:
        """Take the idleness of a split; return what was given out: the source may be idle by that.

        Raises ValueError if there is no such split.
        """
        place = self._place(id)
        return listed(on_split_idle(self._output, self._splits, place), self._output)

    def probe(self) -> list[Output]:
        """Give out what deferred watermarks and removed splits changed (``onPeriodicEmit``)."""
        return listed(combine(self._output, self._splits), self._output)

    def _place(self, id: Hashable) -> int:
        if id not in self._places:
            raise ValueError(f"split {id!r} is unknown: add it first")
        return self._places[id]
