"""Rules of a source that reads several splits: one watermark out of theirs.

``output`` is what the source has given out, ``splits`` its places for splits (an indexable
sequence). Rules return what is given out (:mod:`flowcontrol.protocol.event_time.output_rules`).

Source: ``WatermarkOutputMultiplexer``, ``CombinedWatermarkStatus``; section 6 of
checkpoints-and-time.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.event_time.output_rules import advance, become_idle
from flowcontrol.protocol.event_time.states import Split, WatermarkOutput

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

    Parameters
    ----------
    output : WatermarkOutput
        Of the source.
    splits : sequence of Split
        Its splits.
    index : int
        Which one.
    watermark : int
        Its watermark, ms.
    is_deferred : int
        1: only the next probe (:func:`combine`) gives it out, as of a periodic generator.

    Returns
    -------
    int
        What is given out.
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
