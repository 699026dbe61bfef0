"""A sampler that is offered more than it needs sees what one sees that is offered what is due."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.monitoring import BackPressureSampler, Stats

Draw = Callable[[Callable[[], None], Callable[[], bool], int], None]


def asked(sampler: BackPressureSampler, offers: list[int], blocked: set[int]) -> Stats | None:
    sampler.ask("b", offers[0])
    for now_ms in offers:
        sampler.sample("b", 0, now_ms in blocked, now_ms)
    return sampler.ask("b", offers[0] + sampler.length_ms + 1)


def test_more_offers_change_nothing(draw_until: Draw) -> None:
    met: set[str] = set()

    @given(
        st.integers(1, 20),
        st.integers(1, 60),
        st.integers(0, 1000),
        st.sets(st.integers(0, 3000)),
        st.sets(st.integers(0, 3000)),
    )
    def look(samples: int, delay_ms: int, start: int, more: set[int], blocked: set[int]) -> None:
        due = [start + i * delay_ms for i in range(samples)]
        waiting = {start + one for one in blocked}
        few = asked(BackPressureSampler(samples, delay_ms), due, waiting)
        offers = sorted({*due, *(start + one for one in more)})
        many = asked(BackPressureSampler(samples, delay_ms), offers, waiting)
        assert few == many
        assert few is not None
        share = sum(one in waiting for one in due) / samples
        assert few.ratios == {0: share}
        assert few.end_ms == due[-1]
        if 0 < share < 1:
            met.add("mixed")

    draw_until(look, lambda: bool(met), 5)
    assert met
