"""Pools that are created together, with one redistribution for all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import InsufficientBuffersError
from flowcontrol.spec.pools import NetworkBufferPool


@given(
    total=st.integers(1, 60),
    pools=st.lists(
        st.tuples(
            st.integers(1, 8), st.none() | st.integers(0, 12), st.integers(0, 3), st.integers(0, 3)
        ),
        max_size=8,
    ),
)
def test_pools_that_are_created_together_share_as_those_created_in_turn(total, pools):
    def create(network):
        made = []
        try:
            for required, more, exclusive, channels in pools:
                maximum = None if more is None else required + more
                made.append(network.create_local_pool(required, maximum))
                if exclusive * channels > 0:
                    assert network.take_unpooled(exclusive, channels)
        except InsufficientBuffersError as error:
            return str(error)
        return made

    in_turn, at_once = NetworkBufferPool(total, 128), NetworkBufferPool(total, 128)
    expected = create(in_turn)
    with at_once.together():
        found = create(at_once)
    if isinstance(expected, str):
        assert found == expected
    else:
        assert at_once.state == in_turn.state
        assert [pool.state for pool in found] == [pool.state for pool in expected]
