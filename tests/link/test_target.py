"""Batches that keep their target time through both ends, on a clock of its own."""

from __future__ import annotations

import statistics

import pytest

from flowcontrol.link import receiver as receiver_module

TARGET_S = 1.0


class Sink:
    """A sink that takes its time for the bytes of each channel, and the clock that shows it.

    Parameters
    ----------
    rates : list of float
        Bytes a second of each channel.
    """

    def __init__(self, rates: list[float]) -> None:
        self.rates, self.now_s, self.took_s = rates, 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def run(self, receiver) -> bool:
        """Let the receiver run a batch and the clock go on; whether there was one."""
        done = receiver.done
        if not receiver.advance() or receiver.done == done:
            return False
        rows = receiver.sink[receiver.done].to_pylist()
        # Of a row: its text, the offsets of two texts, two numbers, its sender's name.
        work = [(len(row["text"]) + 25) / self.rates[row["channel"]] for row in rows]
        self.took_s.append(sum(work))
        self.now_s += sum(work)
        return True


@pytest.fixture
def sink(monkeypatch):
    made = Sink([20_000.0] * 2)
    monkeypatch.setattr(receiver_module, "time", made)
    return made


def backlog(make, dry, rows=4000, **settings):
    """A link whose only batch is much more than a target time's work, and room for all of it."""
    pipeline = make(buffer_bytes=4096, floating_buffers=1000, target_batch_s=TARGET_S, **settings)
    pipeline.sender("a", [dry.source_rows("a", 0, [n % 2 for n in range(rows)], 75)])
    return pipeline, pipeline.receiver("main")


def test_a_huge_backlog_is_read_in_batches_of_the_target_time_from_the_start(
    make, dry, verify, sink
):
    pipeline, receiver = backlog(make, dry)
    pipeline.senders["a"].advance()
    for _ in range(60):
        pipeline.senders["a"].advance()
        sink.run(receiver)
    assert max(sink.took_s) < 1.5 * TARGET_S
    assert statistics.median(sink.took_s[8:-2]) == pytest.approx(TARGET_S, rel=0.15)
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_a_sink_that_drops_to_a_tenth_has_one_long_batch(make, dry, verify, sink):
    pipeline, receiver = backlog(make, dry, rows=8000)
    pipeline.senders["a"].advance()
    for _ in range(13):
        pipeline.senders["a"].advance()
        sink.run(receiver)
    before = len(sink.took_s)
    sink.rates = [2000.0] * 2
    for _ in range(20):
        pipeline.senders["a"].advance()
        sink.run(receiver)
    assert sink.took_s[before] > 5 * TARGET_S  # planned when the sink was fast
    assert max(sink.took_s[before + 1 :]) < 1.5 * TARGET_S
    assert statistics.median(sink.took_s[-10:]) == pytest.approx(TARGET_S, rel=0.2)
    verify.check_pipeline(pipeline, is_all=False)


def test_what_a_receiver_has_learnt_outlives_it(make, dry, verify, sink):
    pipeline, receiver = backlog(make, dry)
    pipeline.senders["a"].advance()
    for _ in range(12):
        pipeline.senders["a"].advance()
        sink.run(receiver)
    receiver.kill()
    before = len(sink.took_s)
    while len(sink.took_s) < before + 6:
        sink.run(receiver)
    assert max(sink.took_s[before:]) < 1.5 * TARGET_S
    assert max(sink.took_s[before + 4 :]) > 0.7 * TARGET_S
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_no_batch_reads_more_than_credit_allows_however_fast_the_sink(make, dry, verify, sink):
    sink.rates = [1e12] * 2
    pipeline = make(channels=2, exclusive_buffers=2, floating_buffers=2, target_batch_s=TARGET_S)
    pipeline.sender("a", [dry.source_rows("a", 0, [n % 2 for n in range(400)], 75)])
    receiver = pipeline.receiver("main")
    while pipeline.senders["a"].done < 0:
        pipeline.senders["a"].advance()
        sink.run(receiver)
    limit = pipeline.settings.pool_size * pipeline.settings.buffer_bytes
    taken = [
        row["bytes"]
        for member, row in verify.ledger_rows(pipeline.storage)
        if member.startswith("receiver/")
    ]
    assert 0 < max(taken) <= limit
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_a_row_that_takes_longer_than_the_target_is_read_all_the_same(make, dry, verify, sink):
    """A batch of nothing would get nowhere."""
    sink.rates = [10.0] * 2
    pipeline, receiver = backlog(make, dry, rows=10)
    pipeline.senders["a"].advance()
    for _ in range(40):
        pipeline.senders["a"].advance()
        sink.run(receiver)
    assert receiver.rows.num_rows == 10
    verify.check_pipeline(pipeline)
