"""The loop of a task on a worker made by hand: what it writes, why it stops, its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest

from flowcontrol.protocol.network.pool_rules import fetch_segment
from flowcontrol.protocol.network.rounds import next_input
from flowcontrol.protocol.service import CONSTANT, EXPONENTIAL
from flowcontrol.protocol.tasks.operators import (
    of_ratio,
    outputs_available,
    put_out,
    run_operators,
    write_pending,
)
from flowcontrol.protocol.tasks.reading import begun, lag, read_log, unread
from flowcontrol.protocol.tasks.task import (
    BLOCKED,
    CAPACITY,
    STARVED,
    account,
    emissions_due,
    emit,
    let_pass,
    serve,
    skip_due,
    spend,
    startable,
)
from flowcontrol.state.network import GlobalPool, LocalPool
from flowcontrol.state.rows import FIFO_COUNT, FIFO_SLOTS, Gate, Row
from flowcontrol.state.tasks import (
    READER,
    RELAY,
    SERVER,
    SOURCE,
    Operator,
    RecordWriter,
    SourceLog,
    StreamTask,
)


class ByHand:
    """A task whose partitions have room for some bytes; channels take turns."""

    def __init__(self, *rooms: int, ratios: tuple[str, ...] = (), kind: int = SOURCE) -> None:
        self.room = list(rooms)
        self.operators: list[Operator] = []
        for number, ratio in enumerate(ratios):
            made = of_ratio(Fraction(ratio))
            assert made is not None
            made.input = number - 1
            self.operators.append(made)
        self.task = StreamTask(
            kind=kind, partitions=len(rooms), operators=len(ratios), unit=10, distribution=CONSTANT
        )
        self.task.open_inputs = 1
        self.writers = [
            RecordWriter(pool=LocalPool(), operator=len(ratios) - 1, record_bytes=4) for _ in rooms
        ]
        for writer in self.writers:
            writer.pool.size = writer.pool.maximum = 1
            fetch_segment(writer.pool, GlobalPool(total=1, free=1))
        self.queues = [[0] * (FIFO_SLOTS + 9) for _ in rooms]
        self.written: list[tuple[int, int]] = []
        self.routed: list[tuple[int, int, int]] = []
        self.work = iter([5, 7, 100])
        self.emitted = 0
        self.outputs: Counter[int] = Counter()

    def place(self, writer: RecordWriter) -> int:
        return next(i for i, own in enumerate(self.writers) if own is writer)

    def operator(self, number: int) -> Operator:
        return self.operators[number]

    def writer(self, number: int) -> RecordWriter:
        return self.writers[number]

    def pending(self, writer: RecordWriter) -> list[int]:
        return self.queues[self.place(writer)]

    def is_available(self, writer: RecordWriter) -> int:
        return int(self.room[self.place(writer)] > 0)

    def write(self, writer: RecordWriter, channel: int, nbytes: int) -> int:
        place = self.place(writer)
        part = min(nbytes, self.room[place])
        self.room[place] -= part
        if part == nbytes:
            self.written.append((place, channel))
        return nbytes - part

    def next_channel(self, writer: RecordWriter) -> int:
        return writer.emitted % 2

    def note_routed(self, writer: RecordWriter, channel: int, count: int) -> None:
        self.routed.append((self.place(writer), channel, count))

    def draw(self) -> int:
        return next(self.work)

    def next_input(self, gates: Sequence[Gate], union: Row) -> int:
        return next_input(self.task, gates, union)

    def note_taken(self, count: int) -> None:
        raise AssertionError("a source takes nothing up")

    def note_emitted(self, count: int) -> None:
        self.emitted += count

    def note_put_out(self, operator: int, count: int) -> None:
        self.outputs[operator] += count

    def of_one_time(self, most: int) -> int:
        return most


def test_a_source_emits_what_falls_due() -> None:
    by_hand = ByHand(100)
    by_hand.task.ready = 10  # the first record falls due at 10 units
    assert emit(by_hand, by_hand.task, 35) == CAPACITY
    assert (by_hand.task.taken, by_hand.task.due, by_hand.task.ready) == (3, 3, 40)
    assert (by_hand.written, by_hand.emitted) == ([(0, 0), (0, 1), (0, 0)], 3)


def test_a_source_blocked_inside_a_record_goes_on_at_once() -> None:
    """Room for one record and a half; of what falls due inside the second one record is kept."""
    by_hand = ByHand(6)
    by_hand.task.ready = 10
    by_hand.writers[0].pool.free = 0
    assert emit(by_hand, by_hand.task, 35) == BLOCKED
    assert (by_hand.task.taken, by_hand.task.due, by_hand.task.ready) == (2, 3, 30)
    assert (by_hand.written, by_hand.writers[0].left_bytes) == ([(0, 0)], 2)
    assert by_hand.queues[0][FIFO_COUNT] == by_hand.task.is_pending == 1
    let_pass(by_hand, by_hand.task, 75)  # what fell due at 40 to 70 is lost
    by_hand.writers[0].pool.free, by_hand.room = 1, [8]
    assert emit(by_hand, by_hand.task, 79) == CAPACITY
    assert (by_hand.written, by_hand.task.is_pending) == ([(0, 0), (0, 1), (0, 0)], 0)
    assert (by_hand.task.taken, by_hand.task.ready, by_hand.room) == (3, 85, [2])


def test_a_source_blocked_between_records_goes_on_when_one_falls_due() -> None:
    by_hand = ByHand(0)
    by_hand.task.ready = 10
    assert emit(by_hand, by_hand.task, 35) == BLOCKED
    assert (by_hand.task.taken, by_hand.task.due, by_hand.task.ready) == (0, 3, 40)


def test_a_replaying_source_ends_with_its_records() -> None:
    by_hand = ByHand(100)
    by_hand.task.ready, by_hand.task.limit = 10, 2
    assert emit(by_hand, by_hand.task, 1000) == CAPACITY
    assert (by_hand.task.taken, by_hand.task.due) == (2, 2)


def test_operators_take_what_their_input_puts_out() -> None:
    """A half of it, and three of each of those."""
    by_hand = ByHand(1000, ratios=("0.5", "3"))
    for _ in range(5):
        by_hand.task.taken += 1
        put_out(by_hand, by_hand.task, 1)
    counts = [(own.records_in, own.records_out) for own in by_hand.operators]
    assert counts == [(5, 2), (2, 6)]
    assert by_hand.writers[0].emitted == len(by_hand.written) == 6
    by_hand.task.taken += 4
    run_operators(by_hand, by_hand.task)
    assert [own.records_out for own in by_hand.operators] == [4, 12]
    assert by_hand.outputs == {0: 4, 1: 12}  # whoever follows has heard of all of it


def test_what_is_not_done_yet_is_routed_and_not_written() -> None:
    by_hand = ByHand(100, 100, ratios=("2",))
    by_hand.task.taken += 1
    put_out(by_hand, by_hand.task, 0)
    assert by_hand.written == []
    assert by_hand.routed == [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]
    assert [row[FIFO_COUNT] for row in by_hand.queues] == [2, 2]
    assert write_pending(by_hand, by_hand.task) == 1
    assert by_hand.written == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_task_blocked_in_one_output_writes_no_other() -> None:
    """Partitions are written one after the other; the second waits behind the first."""
    by_hand = ByHand(4, 100, ratios=("2",))
    by_hand.task.taken += 1
    put_out(by_hand, by_hand.task, 1)
    assert by_hand.written == [(0, 0)]
    assert [row[FIFO_COUNT] for row in by_hand.queues] == [1, 2]
    by_hand.writers[0].pool.free = 0
    assert write_pending(by_hand, by_hand.task) == 0
    assert outputs_available(by_hand, by_hand.task) == 0


def test_a_task_without_input_starves() -> None:
    by_hand = ByHand(100, kind=RELAY)
    assert serve(by_hand, by_hand.task, [], [0] * (FIFO_SLOTS + 1), 0) == STARVED


@pytest.mark.parametrize(("ready", "reason"), [(21, CAPACITY), (20, CAPACITY), (19, STARVED)])
def test_a_server_writes_when_its_work_is_done(ready: int, reason: int) -> None:
    by_hand = ByHand(100, kind=SERVER)
    by_hand.task.taken, by_hand.task.ready = 1, ready
    put_out(by_hand, by_hand.task, 0)
    assert serve(by_hand, by_hand.task, [], [0] * (FIFO_SLOTS + 1), 20) == reason
    assert len(by_hand.written) == (ready <= 20)


# ---------------------------------------------------------------- reading a log


@pytest.mark.parametrize(
    ("waits", "most", "end", "reason", "taken", "ready"),
    [
        (9, 99, 35, CAPACITY, 3, 40),  # three are read by 30, a fourth is begun
        (9, 99, 30, CAPACITY, 3, 30),
        (2, 99, 35, STARVED, 2, 20),
        (9, 2, 35, BLOCKED, 2, 20),  # a throttle allows no more
        (9, 0, 35, BLOCKED, 0, 0),
        (0, 0, 35, STARVED, 0, 0),
    ],
)
def test_a_log_is_read_at_the_speed_of_its_source(
    waits: int, most: int, end: int, reason: int, taken: int, ready: int
) -> None:
    by_hand, log = ByHand(100, kind=READER), SourceLog(end=waits)
    assert read_log(by_hand, by_hand.task, log, end, most) == reason
    assert (by_hand.task.taken, log.position, by_hand.task.ready) == (taken, taken, ready)
    assert by_hand.task.due == unread(log) == waits - taken
    assert log.reading == int(ready > end)
    assert lag(log) == waits - begun(log) == waits - taken - log.reading
    assert len(by_hand.written) == by_hand.emitted == taken


def test_a_record_that_is_being_read_is_emitted_when_it_is_done() -> None:
    """Until then it is neither taken nor routed: its latency has not begun."""
    by_hand, log = ByHand(100, kind=READER), SourceLog(end=9)
    for end, emitted in ((35, 3), (39, 3), (40, 4)):
        assert read_log(by_hand, by_hand.task, log, end, 99) == CAPACITY
        assert (len(by_hand.routed), by_hand.emitted, by_hand.task.taken) == (emitted,) * 3
        assert (log.position, log.reading) == (emitted, int(end < 40))
    read_log(by_hand, by_hand.task, log, 40, 99)
    assert log.position == 4


def test_a_throttle_that_allows_no_more_lets_a_record_be_read_to_its_end() -> None:
    by_hand, log = ByHand(100, kind=READER), SourceLog(end=9)
    assert read_log(by_hand, by_hand.task, log, 15, 2) == CAPACITY
    assert (log.position, log.reading) == (1, 1)
    assert read_log(by_hand, by_hand.task, log, 35, 0) == BLOCKED
    assert (log.position, log.reading, len(by_hand.written)) == (2, 0, 2)


def test_a_blocked_source_leaves_its_log_as_it_is() -> None:
    """Room for one record and a half: the second is begun, and nothing is lost."""
    by_hand, log = ByHand(6, kind=READER), SourceLog(end=9)
    by_hand.writers[0].pool.free = 0
    assert read_log(by_hand, by_hand.task, log, 35, 99) == BLOCKED
    assert (by_hand.written, by_hand.writers[0].left_bytes) == ([(0, 0)], 2)
    assert (log.position, by_hand.task.due) == (2, 7)


def test_reading_times_that_vary_are_drawn_one_by_one() -> None:
    by_hand, log = ByHand(100, kind=READER), SourceLog(end=9)
    by_hand.task.distribution = EXPONENTIAL
    assert read_log(by_hand, by_hand.task, log, 13, 99) == CAPACITY
    assert (begun(log), by_hand.task.ready, len(by_hand.written)) == (3, 112, 2)


# ---------------------------------------------------------------- pacing


@pytest.mark.parametrize(("end", "due"), [(9, 0), (10, 1), (19, 1), (20, 2), (105, 10)])
def test_emissions_fall_due_a_unit_apart(end: int, due: int) -> None:
    task = StreamTask(unit=10, distribution=CONSTANT, ready=10)
    assert emissions_due(task, end) == due
    by_hand = ByHand()
    by_hand.task.ready = 0
    assert skip_due(by_hand, by_hand.task, end) == due
    assert by_hand.task.ready == 10 * (due + 1)


def test_emissions_whose_times_vary_fall_due_one_by_one() -> None:
    by_hand = ByHand()
    by_hand.task.distribution = EXPONENTIAL
    spend(by_hand, by_hand.task, 1)
    assert by_hand.task.ready == 5
    assert emissions_due(by_hand.task, 1000) == 1
    assert skip_due(by_hand, by_hand.task, 12) == 2  # at 5 and at 12
    assert by_hand.task.ready == 112


@pytest.mark.parametrize(
    ("distribution", "most", "ready", "count"),
    [(CONSTANT, 9, 0, 5), (CONSTANT, 3, 0, 3), (CONSTANT, 9, 41, 1), (EXPONENTIAL, 9, 0, 1)],
)
def test_records_that_a_server_begins_before_the_end(
    distribution: int, most: int, ready: int, count: int
) -> None:
    task = StreamTask(unit=10, distribution=distribution, ready=ready)
    assert startable(task, most, 50) == count


# ---------------------------------------------------------------- where the time goes


@pytest.mark.parametrize(
    ("state", "start", "end", "done", "reason", "available", "times"),
    [
        (StreamTask(kind=SOURCE, due=4, cost_ns=5000), 0, 40, 4, CAPACITY, 1, (20, 80, 0)),
        (StreamTask(kind=SOURCE, due=4, cost_ns=5000), 0, 40, 1, BLOCKED, 0, (5, 20, 75)),
        (StreamTask(kind=SERVER, ready=30), 0, 40, 3, STARVED, 1, (75, 25, 0)),
        (StreamTask(kind=SERVER, ready=30), 0, 40, 3, BLOCKED, 0, (75, 0, 25)),
        (StreamTask(kind=READER, ready=30), 0, 40, 3, STARVED, 1, (75, 25, 0)),
        (StreamTask(kind=READER, ready=30, due=5), 0, 40, 3, BLOCKED, 0, (75, 0, 25)),
        (StreamTask(kind=READER, due=5), 0, 0, 0, CAPACITY, 1, (100, 0, 0)),  # it stands still
        (StreamTask(kind=RELAY), 0, 0, 3, STARVED, 1, (0, 100, 0)),
        (StreamTask(kind=RELAY, queued=1), 0, 0, 3, BLOCKED, 0, (0, 75, 25)),
        (StreamTask(kind=RELAY, queued=1), 0, 0, 0, CAPACITY, 1, (100, 0, 0)),
    ],
)
def test_a_round_is_shared_out(
    state: StreamTask,
    start: int,
    end: int,
    done: int,
    reason: int,
    available: int,
    times: tuple[int, int, int],
) -> None:
    account(state, 100, start, end, done, reason, available)
    assert (state.busy, state.idle, state.blocked) == times
