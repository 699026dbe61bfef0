"""A reader that polls only when it was told gets everything: a property of the queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec import Subpartition

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["full", "open", "append", "flush", "event", "poll"]), st.integers(0, 9)
    ),
    max_size=50,
)


class Writer:
    """Drives a subpartition and counts what it wrote."""

    def __init__(self, sub):
        self.sub, self.handle, self.written = sub, None, 0

    def full(self, number):
        self.close()
        self.sub.add_buffer(number, is_finished=True)
        self.written += number

    def open(self, number):
        self.close()
        self.handle = self.sub.add_buffer(number)
        self.written += number

    def append(self, number):
        if self.handle is not None:
            self.handle.append(number)
            self.written += number

    def event(self, number):
        self.close()
        self.sub.add_event("event", number + 1)
        self.written += number + 1

    def flush(self, _):
        self.sub.flush()

    def close(self):
        if self.handle is not None:
            self.handle.finish()
        self.handle = None


def read_on(sub):
    """Poll as long as more is available, as a reader with credit does."""
    more = True
    while more:
        kind = sub.peek()
        message = sub.poll()
        assert (message and message.kind) == kind
        more = message is not None and message.more_available


@given(STEPS, st.integers(0, 1))
def test_a_reader_that_polls_only_when_told_gets_every_byte(steps, initial):
    sub, told = Subpartition(initial), []
    writer = Writer(sub)
    sub.listener = lambda: told.append(True)
    for action, number in steps:
        if action != "poll":
            getattr(writer, action)(number)
        elif told:
            told.clear()
            read_on(sub)
        assert sub.total_bytes + sub.queued_bytes == writer.written
        assert told or not sub.is_available(credit=1)
    writer.close()
    sub.finish()
    read_on(sub)
    assert (sub.total_bytes, sub.queued, sub.backlog) == (writer.written + 4, 0, 0)
