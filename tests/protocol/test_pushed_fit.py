"""The rules of Spark's streaming shuffle fit into 64 bits."""

from __future__ import annotations

import pytest

from flowcontrol.layout.physical_graph import MOST_BYTES
from flowcontrol.state.network import GlobalPool, LocalPool, Message, Subpartition
from flowcontrol.state.queues import new_queue
from flowcontrol.state.rows import Partition
from flowcontrol.systems.transports import push_quota
from flowcontrol.systems.transports.transport import RecordTransport
from tests.protocol.test_fits import INT, ends


@pytest.mark.parametrize("size", ends("record_bytes"))
@pytest.mark.parametrize("buffer", [1, 32768, INT // 2])
@pytest.mark.parametrize("memory", [1, INT])
def test_pushed_messages_fit(narrow: type[int], size: int, buffer: int, memory: int) -> None:
    """A row may be larger than all that a writer, its sockets and its reader have."""
    rules = RecordTransport(
        full_bytes=narrow(buffer),
        reader_bytes=narrow(memory),
        kernel_bytes=narrow(memory),
        header_bytes=narrow(65536),
    )
    granted = push_quota.most_records(rules, narrow(size))
    own = Subpartition(announced=granted, quota=narrow(memory))
    pool, queue = LocalPool(size=narrow(2)), new_queue(push_quota.RUNS, Message)
    part = Partition(pool, GlobalPool(), [own], [queue], [], [], 0)
    written = MOST_BYTES // size
    for count in (1, max(1, min(INT, buffer // size)), max(1, min(INT, buffer // size))):
        own.sent, own.buffers, own.closed = narrow(written - count), narrow(count), narrow(0)
        own.consumed = narrow(own.sent - 1)
        own.announced = granted + own.consumed
        push_quota._written(rules, part, 0, 1, narrow(size))
        push_quota.close_buffer(part, 0, narrow(size))
        push_quota.hand_over(rules, part, 0, narrow(size))
        assert 0 <= own.held <= 5 * INT * push_quota.HELD_PARTS
