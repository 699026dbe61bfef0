"""A channel that ends while its task aligns: the kernel's state is that of stages apart."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest

from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.scenario import Savepoint
from modules import load

watch = load("tests/virtual/watch_checkpoints.py")


@pytest.mark.parametrize("mode", [ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE])
def test_a_channel_may_end_in_an_alignment(
    clocks: ModuleType, small_checkpoints: ModuleType, mode: int
) -> None:
    """The left source ends in the round in which it is asked, before it hears of the savepoint.

    Nothing waits for a last checkpoint, as savepoints are all there are; the end stands behind data
    that the sink has not read when the right source's barrier is there.
    """
    left = [{"at_s": 0, "rate": 400}, {"at_s": 1.1, "rate": 0}]
    made = small_checkpoints.two_inputs(left, 40, 200)
    job = small_checkpoints.with_settings(
        made, mode=mode, interval_us=None, savepoints=(Savepoint(at_s=1.0, stop=False),)
    )
    seen: Counter[str] = Counter()
    clocks.compare(job, every=(1, 3), look=lambda state: seen.update(watch.happened(state)))
    if mode != AT_LEAST_ONCE:  # which counts
        assert seen["ends in alignment"] > 0
    assert seen["finished"] > 0
    assert seen["acknowledged"] == 2  # of the right source and of the sink
