"""What a sender's releasing thread and foreachBatch share is touched under its lock only."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from flowcontrol.link.members import receivers_of, senders_of
from flowcontrol.link.packing import packed_rows

FREE = {"storage", "close"}
"""What never changes, or waits for the thread."""


class Guarded:
    """Stands for a part of a sender; no thread may use it without the sender's lock."""

    def __init__(self, own, lock, used: list[str]) -> None:
        self._own, self._lock, self._used = own, lock, used

    def __getattr__(self, name: str):
        if name not in FREE:
            assert self._lock._is_owned(), f"{name} is used without the lock"
            self._used.append(name)
        return getattr(self._own, name)


def test_every_use_of_what_is_shared_holds_the_lock(make, dry):
    pipeline = make(channels=2, spill_bytes=1 << 20)
    pipeline.sender("a", [], tasks=1)
    receiver = pipeline.receiver("main")
    query, used = pipeline.senders["a"], list[str]()
    sender = query.open()
    output = sender.output
    sender.ledger = output.ledger = Guarded(sender.ledger, sender._lock, used)
    sender.files = Guarded(sender.files, sender._lock, used)
    output.log = Guarded(output.log, sender._lock, used)
    for batch in range(4):
        assert sender.settle(lambda: True)
        assert not sender.is_written(batch)
        rows = dry.source_rows("a", 10 * batch, [0, 1] * 5, 400)
        sender.write(batch, packed_rows(query._pack(rows, sender)))
        assert sender.waiting_bytes() >= 0
        assert sender.is_written(batch, None, lambda: 10)
        receiver.advance()
        sender._background.try_step()
        sender._background.raise_failure()
    assert {"refresh", "commit", "last_batch", "log"} <= set(used)


def test_foreach_batch_and_the_releasing_thread_get_on(make, dry, verify):
    """Both at once, changing places as often as Python lets them."""
    pipeline = make(channels=2, spill_bytes=1 << 20)
    query = pipeline.sender("a", [])
    sender, failures, is_over = query.open(), list[BaseException](), threading.Event()

    def release() -> None:
        while not is_over.is_set():
            try:
                with sender._lock:
                    sender._background.try_step()
                sender._background.raise_failure()
            except BaseException as error:
                failures.append(error)
                return

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=release)
    thread.start()
    receiver = pipeline.receiver("main")
    for batch in range(15):
        sender.settle(lambda: False)
        rows = dry.source_rows("a", 4 * batch, [0, 1] * 2, 300)
        query.batches.append(rows)
        assert not sender.is_written(batch)
        sender.write(batch, packed_rows(query._pack(rows, sender)))
        receiver.advance()
    is_over.set()
    thread.join()
    sys.setswitchinterval(usual)
    query.planned = query.done = 14
    assert not failures
    pipeline.drain()
    verify.check_pipeline(pipeline)


class Joining(dict):
    """State of a member; when it is read another member comes, as another thread would add it."""

    def __init__(self, members: dict, state: dict) -> None:
        super().__init__(state)
        self._members = members

    def _join(self) -> None:
        name = f"receiver/late{len(self._members)}/0-1"
        self._members[name] = SimpleNamespace(state=dict(self))

    def __getitem__(self, key):
        self._join()
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._join()
        return super().get(key, default)


@pytest.mark.parametrize("find", [senders_of, receivers_of])
def test_members_that_come_while_they_are_listed(make, dry, find):
    pipeline = make(channels=2)
    pipeline.sender("a", [dry.source_rows("a", 0, [0, 1], 10)])
    pipeline.receiver("main")
    pipeline.drain()
    view = pipeline.senders["a"].open().ledger
    expected = find(view)
    for name, latest in list(view.members.items()):
        view.members[name] = SimpleNamespace(state=Joining(view.members, latest.state))
    found = find(view)
    assert len(expected) == 1
    assert expected[0] in found
    assert any("late" in name for name in view.members)
