"""Which channels wait behind a switch to unaligned, in Flink and by the reference."""

from __future__ import annotations

import pytest

from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.state.network import AlignedChannel, Alignment


@pytest.mark.parametrize(("resumes", "blocked"), [(1, [0, 0, 0]), (0, [1, 0, 0])])
def test_blocked_channels_resume_at_the_switch_or_at_the_last_barrier(
    resumes: int, blocked: list[int]
) -> None:
    own = Alignment(mode=2, timeout=50, open_channels=3, resumes_at_switch=resumes)
    channels = [AlignedChannel() for _ in range(3)]

    def barrier(index: int, now: int, kind: int) -> int:
        return a.on_barrier(own, channels, index, now, 1, 100, kind)

    assert barrier(0, 110, a.TIMEOUTABLE) == 0
    assert [channel.is_blocked for channel in channels] == [1, 0, 0]
    done = a.on_timer(own, channels, 150)
    assert done & a.SWITCH
    assert done & a.TRIGGER
    assert bool(done & a.RESUME_ALL) == (resumes == 1)
    assert [channel.is_blocked for channel in channels] == blocked
    assert barrier(1, 151, a.UNALIGNED) == 0
    assert [channel.is_blocked for channel in channels] == blocked
    assert bool(barrier(2, 152, a.UNALIGNED) & a.RESUME_ALL) == (resumes == 0)
    assert [channel.resumed for channel in channels] == [1, 0, 0]
    assert own.is_pending == 0


def test_an_abort_behind_the_switch_resumes_what_is_blocked() -> None:
    own = Alignment(mode=2, timeout=50, open_channels=2, resumes_at_switch=0)
    channels = [AlignedChannel() for _ in range(2)]
    a.on_barrier(own, channels, 0, 110, 1, 100, a.TIMEOUTABLE)
    a.on_timer(own, channels, 150)
    assert channels[0].is_blocked == 1
    assert a.on_cancel(own, channels, 1, 1) & a.RESUME_ALL
    assert [channel.resumed for channel in channels] == [1, 0]
