"""Every product of the rules fits into 64 bits, whatever a scenario says that validates.

A table says how large quantities can be; each rule that multiplies is called with all their ends.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import astuple
from importlib import import_module
from itertools import product
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

from flowcontrol.kernel.compiled import KERNEL, _rule_modules
from flowcontrol.layout.physical_graph import MOST_BYTES, MOST_RECORDS
from flowcontrol.protocol import event_time as watermarks
from flowcontrol.protocol import service
from flowcontrol.protocol.checkpoints import barriers
from flowcontrol.protocol.checkpoints.barriers import MOST_TRACKED
from flowcontrol.protocol.network import (
    credit_rules,
    debloating,
    partition_kinds,
    partitioners,
    rounds,
)
from flowcontrol.protocol.requests import (
    async_wait,
    common,
    destination,
    entries,
    producer,
    rate_limiting,
)
from flowcontrol.protocol.service import MOST, MOST_SHARES
from flowcontrol.protocol.tasks import committing, event_time, operators, processors, reading
from flowcontrol.protocol.tasks import task as pacing
from flowcontrol.protocol.windows import contents, spark_batches
from flowcontrol.protocol.windows import firing as window_entries
from flowcontrol.scenario.fields import MAX_BYTES, MAX_PARALLELISM, MAX_SECONDS
from flowcontrol.scenario.option_table import MAX_SEGMENT_BYTES
from flowcontrol.scenario.system import TRANSPORT_PARTS
from flowcontrol.state import queues, rows, tasks
from flowcontrol.state.declared import width
from flowcontrol.state.network import (
    AlignedChannel,
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    Ring,
    Subpartition,
)
from flowcontrol.state.queues import new_queue
from flowcontrol.state.rows import Gate
from flowcontrol.state.tasks import (
    MAX_TIME,
    MIN_TIME,
    ActivityClock,
    Generator,
    StreamTask,
    TaskTime,
)
from flowcontrol.systems import barrier_buffer, tcp
from flowcontrol.systems.barrier_buffer import AsideDisk
from flowcontrol.systems.throttles import throttled_source
from flowcontrol.systems.transports import (
    bdp_window,
    half_return_credit,
    hop_hysteresis,
    push_quota,
    rate_window,
    record_rounds,
    transport,
)
from flowcontrol.systems.transports.transport import (
    ChannelGrant,
    Given,
    RecordTransport,
    RoundEnd,
    period_end,
)

ROUND_US = MAX_SECONDS * 1000
INT = 2**31 - 1
PARAMETER = 1 << 53

RANGES = {
    "flag": (0, 1),
    "us": (0, MAX_SECONDS * 10**6 + 3 * ROUND_US),
    "round_us": (1, ROUND_US),
    "ns": (0, 1000 * (MAX_SECONDS * 10**6 + 3 * ROUND_US)),
    "records": (0, MOST_RECORDS),
    "work": (0, MOST),
    "parts": (0, processors.WHOLE_ROUND),
    "ready": (0, 2 * MOST),
    "bytes": (0, MOST_BYTES),
    "message_bytes": (0, MAX_SEGMENT_BYTES + MAX_BYTES + 64),
    "record_bytes": (1, MAX_BYTES),
    "segment_bytes": (4096, MAX_SEGMENT_BYTES),
    "buffers": (0, INT),
    "channels": (1, MAX_PARALLELISM),
    "cost_ns": (0, 1000 * ROUND_US),
    "parameter": (1, PARAMETER),
    "speed": (0, MOST),
    "percent": (0, 100),
    "segments": (0, 1 << 20),
    "number": (1, MOST),
    "time": (MIN_TIME, MAX_TIME),
    "duration": (0, MAX_TIME),
    "id": (0, watermarks.IDS - 1),
    "channel": (0, MAX_PARALLELISM - 1),
    "held": (0, 5 * INT * push_quota.HELD_PARTS),
    "in_flight": (0, 1 << 34),
}
"""How large a quantity can be in a run of a scenario that validates."""

Rule = Callable[..., Any]


def ends(name: str) -> list[int]:
    low, high = RANGES[name]
    inner = [low + 1, (low + high) // 2, high // 1000 * 999, high - 1]
    return sorted({low, high, *(value for value in inner if low <= value <= high)})


def up_to_all(whole: int, part: int, total: int) -> bool:
    return 0 <= part <= total and total > 0


def any_ratio(count: int, numerator: int, denominator: int) -> bool:
    return numerator > 0 and denominator > 0 and numerator * denominator <= MOST


def in_order(*numbers: int) -> bool:
    """Arguments of busy_us: the round's work is at its end what it was at its start, or more."""
    return numbers[1] <= numbers[2] and numbers[3] >= numbers[1]


CASES: dict[Rule, tuple[str, Callable[..., bool] | None]] = {
    service.capped: ("number number number", any_ratio),
    service.proportion: ("number number number", up_to_all),
    processors._parts: ("parts work work", lambda _, work, all_: all_ > 0 and work <= 2 * all_),
    service.emitting_us: ("round_us records cost_ns", None),
    service.blocked_source_us: ("round_us records records flag flag", lambda w, a, b, *_: b <= a),
    service.blocked_relay_us: ("round_us records records flag", None),
    service.busy_us: ("round_us work work ready records flag flag", in_order),
    service.flush_ticks: ("us us us us", lambda a, b, c, d: a <= b and c > 0 and d < c),
    service.next_flush_us: ("us us us", lambda a, b, c: b > 0 and c < b),
    service.flush_period_us: ("us us", lambda a, b: a > 0 and b < a),
    debloating.throughput: ("bytes us speed", None),
    debloating.is_announced: ("segment_bytes segment_bytes percent segment_bytes bytes", None),
    partitioners.channel_of_group: ("channels channels channels", None),
    partition_kinds.memory_is_short: ("buffers buffers", None),
    partition_kinds.buffers_to_evict: ("buffers", None),
    credit_rules.reported_backlog: ("buffers flag flag flag flag", None),
    partition_kinds.full_spill_is_due: ("buffers buffers", None),
    partition_kinds.disk_ns: ("message_bytes number number", any_ratio),
    record_rounds.sent_slots: ("buffers", None),
    record_rounds.received_slots: ("buffers", None),
    partition_kinds.read_ahead: ("channels channels channels bytes segment_bytes", None),
    partition_kinds.partition_sizes: ("channels flag buffers buffers buffers", None),
    partition_kinds.gate_sizes: ("channels buffers buffers buffers", lambda *x: x[3] > 0),
    partition_kinds.unreserved_sizes: ("channels buffers buffers", None),
    rate_window.next_window: ("speed bytes bytes flag flag parameter flag",
                              lambda *x: x[3] == x[4] == 1 and x[1] >= x[2]),
    rate_window.rounded_up: ("bytes bytes number", lambda *x: x[0] >= x[1]),
    period_end: ("us us", lambda now, period: period > 0),
    rate_window._records_of: ("number parameter record_bytes", None),
    tasks.later: ("time duration", None),
    tasks.earlier: ("time duration", None),
    watermarks.bounded_watermark: ("time duration", None),
    watermarks.stamp_of: ("time id", None),
    committing.commits_us: ("records us", lambda *x: x[1] > 0),
    watermarks.pending_mark: ("channel flag", None),
    push_quota.let_go: ("held in_flight in_flight", lambda _, left, all_: left <= all_ > 0),
    tcp.high_mark: ("segments segment_bytes", None),
    tcp.low_mark: ("segments segment_bytes bytes", None),
    tcp.ring_slots: ("parameter bytes segment_bytes record_bytes channels",
                          lambda *x: x[1] <= 1 << 50),
}  # fmt: skip

BY_HAND = {
    rounds.whole_records, rounds.append_whole_records,
    service.work_by, service.first_us_at, service.service_work,
    partition_kinds.redistribute, debloating.debloat, rate_window._next_grant, bdp_window._measure,
    bdp_window.next_window, bdp_window._next_grant, throttled_source.after_emitting,
    tcp.close_buffer,
    transport.fill_message, barrier_buffer.use_disk,
    operators.on_selected, pacing.spend, reading.written_us, barriers.begin_cut,
    event_time.begin_event,
    window_entries.bucket_of, contents.key_of, contents.id_of_key,
    spark_batches.take_row, spark_batches._put, queues.widen,
    destination.fill, destination.answer_us, rate_limiting.us_of, rate_limiting.tokens_at,
    destination.take_tokens, entries.put_last, entries.take_first,
    entries.take_records, rate_limiting.scaled_down, async_wait._next_delay,
    common.delay_after, producer._append,
    push_quota.close_buffer, push_quota.hand_over, push_quota._written,
    contents.put_further_in, contents.absorb_further, contents.purge_further,
}  # fmt: skip
"""Rules that the tests below call, and those of ``test_windows_fit``, ``test_requests_fit`` and
``test_pushed_fit``, for their arguments depend on each other."""

NOT_IN_A_RUN = {
    service.ratio_of, service.whole_rates, service.whole_shares,
    partitioners.murmur, partitioners.java_hash, partitioners.default_max_parallelism,
    partitioners.pointwise_channels, partitioners.pointwise_senders,
    partitioners.smooth_round_robin, partitioners.integer_weights, rows.fifo,
    half_return_credit._parameters, hop_hysteresis._parameters, Given.rounds,
    window_entries.further_of, push_quota._parameters, push_quota.writer_budget,
    bdp_window._parameters,
}  # fmt: skip
"""What is worked out before a run, or beside it, in Python's own integers."""

OF_DOUBLES = {service.relative_time, hop_hysteresis.is_on, hop_hysteresis._is_held}
OF_BITS = {rows.add_member, rows.add_all_members, barriers.track, barriers.count}


@pytest.mark.parametrize("rule", CASES, ids=lambda rule: rule.__name__)
def test_a_rule_fits(narrow: type[int], rule: Rule) -> None:
    names, is_valid = CASES[rule]
    called = 0
    for values in product(*(ends(name) for name in names.split())):
        if is_valid is None or is_valid(*values):
            rule(*map(narrow, values))
            called += 1
    assert called > 1


def fresh(cls: type[Any], narrow: type[int]) -> Any:
    """A state as a run begins, of integers that must fit."""
    return cls(*map(narrow, astuple(cls())))


def multiplying() -> Iterator[FunctionType]:
    """Functions of the modules of rules in which something is multiplied or shifted."""
    for module in _rule_modules():
        for value in vars(module).values():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                nodes = ast.walk(ast.parse(inspect.getsource(value)))
                kinds = {
                    type(node.op) for node in nodes if isinstance(node, ast.BinOp | ast.AugAssign)
                }
                if kinds & {ast.Mult, ast.LShift, ast.Pow}:
                    yield value


def test_no_rule_that_multiplies_is_left_out() -> None:
    held = set(CASES) | BY_HAND | NOT_IN_A_RUN | OF_DOUBLES | OF_BITS
    assert [rule.__qualname__ for rule in multiplying() if rule not in held] == []


@pytest.mark.parametrize("span", ends("buffers"))
def test_a_wider_ring_fits(narrow: type[int], span: int) -> None:
    ring = fresh(Ring, narrow)
    ring.count = ring.span = narrow(span)
    queues.widen(ring, range(narrow(2 * span + 4)))
    assert ring.span == max(queues.FIRST_SPAN, 2 * span)


@pytest.mark.parametrize("records", ends("records"))
@pytest.mark.parametrize("is_exponential", [0, 1])
def test_the_time_of_a_record_fits(narrow: type[int], records: int, is_exponential: int) -> None:
    most_ms = MAX_SECONDS * 1000
    for behind, offset, born in product((0, most_ms), (-most_ms, most_ms), (0, most_ms)):
        for bits in (0, (1 << 63) - 1):
            time = TaskTime(offset=narrow(offset), spread=narrow(behind))
            time.is_exponential = is_exponential
            worker = SimpleNamespace(
                task_time=lambda time=time: time,
                born_ms=lambda born=born: narrow(born),
                draw_bits=lambda stream, number, bits=bits: narrow(bits),
            )
            task = StreamTask(taken=narrow(records + 1))
            event_time.begin_event(worker, task)
            happened = watermarks.time_of(task.stamp)
            assert happened <= min(born + offset, watermarks.LAST_TIME)
            assert happened == born + offset or behind > 0 or abs(born + offset) > 1 << 42


@pytest.mark.parametrize("count", [1, 2, 1000, watermarks.IDS])
def test_a_key_fits(narrow: type[int], count: int) -> None:
    for number in (0, 1, watermarks.IDS - 1):
        key = contents.key_of(narrow(number), narrow(count), [], [])
        assert 0 <= key < count
        assert contents.id_of_key(narrow(key), narrow(count), [], []) <= number


@pytest.mark.parametrize("record_bytes", ends("record_bytes"))
def test_a_message_of_records_fits(narrow: type[int], record_bytes: int) -> None:
    for records in (0, 1, MOST_BYTES // record_bytes):
        message = fresh(Message, narrow)
        transport.fill_message(message, narrow(records), narrow(record_bytes))
        assert message.nbytes == records * record_bytes


@pytest.mark.parametrize("round_ns", [1000, 10**9, 1000 * ROUND_US])
@pytest.mark.parametrize(("cost_ns", "unit"), [(0, 0), (1, 10**9), (10**9, 1)])
def test_a_disk_of_alignments_fits(
    narrow: type[int], round_ns: int, cost_ns: int, unit: int
) -> None:
    for now in (0, 1, MAX_SECONDS * 10**9 // round_ns):
        for nbytes in (1, 1 << 20):
            disk = AsideDisk(*map(narrow, (now * round_ns, cost_ns, unit, round_ns)))
            seen = barrier_buffer.use_disk(disk, narrow(nbytes), narrow(now))
            took = nbytes * cost_ns // max(1, unit)
            assert seen == (max(now + 1, now - (-took // round_ns)) if unit else now)


@pytest.mark.parametrize("records", ends("records"))
@pytest.mark.parametrize("end_us", [1, 10**6, 10**15 + 3 * 10**12])
def test_work_fits(narrow: type[int], records: int, end_us: int) -> None:
    unit = MOST // (records + 1)
    rate = max(1, records * unit // end_us)
    phases = [[narrow(0), narrow(0), narrow(rate)]]
    done = service.work_by(phases, narrow(end_us))
    assert done <= MOST
    for work in (0, 1, done, done + 1, done + unit, 2 * MOST):
        at = service.first_us_at(phases, narrow(work), narrow(0))
        assert at == -(-work // rate)
        assert service.first_us_at(phases, narrow(work), narrow(end_us)) >= end_us
    for offset in (0, done // unit - 1, done // unit):  # of a log: the last one is the next to come
        at = reading.written_us(phases, narrow(unit), narrow(max(0, offset)))
        assert at == -(-(max(0, offset) + 1) * unit // rate)
    for first in (0.0, 0.5, 1 - 2.0**-53):
        for cv in (0.0, 0.5, 1000.0):
            for second in (0.0, 0.5):
                drawn = service.service_work(service.LOGNORMAL, cv, first, second, narrow(unit))
                assert 1 <= drawn <= MOST
                narrow(done) + drawn


@pytest.mark.parametrize("numerator", ends("number"))
@pytest.mark.parametrize("count", ends("number"))
def test_outputs_fit(narrow: type[int], numerator: int, count: int) -> None:
    denominator = MOST // numerator
    count = min(count, 2 * MOST * denominator // numerator)
    state = operators.Selectivity(numerator=narrow(numerator), denominator=narrow(denominator))
    state.remainder = narrow(denominator - 1)
    outputs = operators.on_selected(state, narrow(count))
    assert outputs == (count * numerator + denominator - 1) // denominator
    assert 0 <= state.remainder < denominator


@pytest.mark.parametrize("records", ends("records"))
def test_paces_fit(narrow: type[int], records: int) -> None:
    """A task never has more to begin than what the run's work allows."""
    unit = MOST // (records + 1)
    task = StreamTask(unit=narrow(unit), ready=narrow(0), kind=narrow(1))
    end = narrow(unit * (records + 1))
    pacing.spend(None, task, pacing.startable(task, narrow(MOST), end))  # type: ignore[arg-type]
    assert task.ready == end
    pacing.spend(None, task, pacing.emissions_due(task, end))  # type: ignore[arg-type]
    assert task.ready == end + unit


@pytest.mark.parametrize("size", ends("record_bytes"))
def test_bytes_at_a_checkpoint_fit(narrow: type[int], size: int) -> None:
    """No edge carries more than MOST_BYTES in a run, so no task has processed more of one."""
    records = narrow(min(MOST_BYTES // size, MOST_RECORDS))
    channel = AlignedChannel(has_delivered=narrow(1), barrier_at=narrow(MOST_BYTES))
    gate = Gate([InputChannel(processed=records)], LocalPool(), GlobalPool(), [], [], [], [])
    persisted = barriers.begin_cut(gate, [channel], 0, narrow(size))
    assert persisted == MOST_BYTES - records * size


def test_a_set_of_checkpoints_fits() -> None:
    assert MOST_TRACKED < 63


def test_shares_fit_after_all_records(narrow: type[int]) -> None:
    """A channel is never so far behind that the sum with its share leaves 64 bits."""
    weights = [1] * 40 + [MOST_SHARES // 3, MOST_SHARES // 2, MOST_SHARES // 7]
    weights = [narrow(weight) for weight in weights]
    behind, total = [narrow(0) for _ in weights], sum(weights)
    for _ in range(500):
        channel = partitioners.next_by_share(behind, weights)
        partitioners.count_share(behind, weights, total, channel)
        assert max(map(abs, behind)) < 12 * total


@pytest.mark.parametrize("size", ends("record_bytes"))
@pytest.mark.parametrize("unit", ends("parameter"))
@pytest.mark.parametrize("multiplier", ends("parameter"))
def test_windows_fit(narrow: type[int], size: int, unit: int, multiplier: int) -> None:
    values = fresh(RecordTransport, narrow)
    state = fresh(ChannelGrant, narrow)
    slots = int(TRANSPORT_PARTS["rate_window"].parameters["initial_units"].most)
    values.unit, values.slots = narrow(unit), narrow(slots)
    values.multiplier, values.period = narrow(multiplier), narrow(1)
    granted = rate_window.RULES.first_grant(values, state, narrow(size))
    most = MOST_BYTES // (size + rate_window.ITEM_OVERHEAD)
    for taken in (0, 0, 1, most // 2, most, most):
        channel = InputChannel(processed=narrow(taken), arrived=narrow(taken + 1))
        granted = rate_window.RULES.next_grant(values, state, channel, RoundEnd(0, 0, narrow(size)))
        assert granted >= taken


@pytest.mark.parametrize("size", ends("record_bytes"))
@pytest.mark.parametrize("round_us", [1, 1000, ROUND_US])
def test_round_trips_fit(narrow: type[int], size: int, round_us: int) -> None:
    values = fresh(RecordTransport, narrow)
    state = fresh(ChannelGrant, narrow)
    values.slots = values.most = narrow(PARAMETER)
    values.trip = narrow(max(2, 2 * ROUND_US // round_us))
    values.round_ns = narrow(1000 * round_us)
    bdp_window.RULES.first_grant(values, state, narrow(size))
    for turn, arrived in enumerate((0, 1, MOST_BYTES // size // 2, MOST_BYTES // size)):
        now = narrow(turn * 3 * values.trip)
        channel = InputChannel(arrived=narrow(arrived))
        for at in (now, now + values.trip):
            bdp_window.RULES.next_grant(values, state, channel, RoundEnd(at, 0, narrow(size)))
        assert all(-(2**63) <= value < 2**63 for value in astuple(state))


@pytest.mark.parametrize("gap_ns", [1, 10**9, MOST])
@pytest.mark.parametrize("start_ns", [0, 10**18])
@pytest.mark.parametrize("round_ns", [1000, 10**15])
def test_gaps_fit(narrow: type[int], gap_ns: int, start_ns: int, round_ns: int) -> None:
    state = fresh(throttled_source.ThrottledSource, narrow)
    state.gap_ns, state.admitted = narrow(gap_ns), narrow(-1)
    end_ns = narrow(start_ns + round_ns)
    waiting = throttled_source.offer(state, narrow(MOST_RECORDS))
    count = throttled_source.may_emit(state, waiting, narrow(0), narrow(start_ns), end_ns)
    throttled_source.after_emitting(state, count, narrow(start_ns))
    assert count == min(waiting, -(-round_ns // gap_ns))


def test_sizes_of_buffers_fit(narrow: type[int]) -> None:
    speeds, targets = ends("speed"), (1000, MAX_SECONDS * 10**6)
    for speed, in_use, target in product(speeds, (0, 1, 2**20), targets):
        size = debloating.debloat(
            32768.0, narrow(speed), narrow(in_use), narrow(target), 1, 256, 2**30
        )
        assert 256 <= size <= 65536
    lists = [[narrow(INT // 8)] * 4, [narrow(INT)] * 4, [narrow(0)] * 4]
    assert partition_kinds.redistribute(narrow(INT), narrow(0), *lists) <= INT
    row = Subpartition(*[narrow(0)] * width(Subpartition))
    row.is_open, row.limit = narrow(1), narrow(MAX_SEGMENT_BYTES)
    part = rounds.Partition(LocalPool(), GlobalPool(), [row], [new_queue(8, Message)], [], [], 0)
    for size in ends("record_bytes"):
        row.filled = narrow(0)
        for most in (1, MOST_RECORDS):
            count = rounds.whole_records(row, narrow(size), narrow(most))
            assert count * size < 2**30
            rounds.append_whole_records(row, narrow(size), count)
            assert row.filled < 2**30
    values, message = fresh(RecordTransport, narrow), Message()
    for size in ends("record_bytes"):
        row.buffers = narrow(MOST_BYTES // size)
        assert record_rounds.send_records(values, part, 0, narrow(size), message) == 1
        assert 0 < message.nbytes <= MOST_BYTES
    row.filled, row.buffers = narrow(0), narrow(1)
    row.unread = narrow(1)
    tcp.close_buffer(part, 0)


def test_clocks_of_idleness_fit(narrow: type[int]) -> None:
    for start, stop, end in product(ends("us"), repeat=3):
        if start <= stop <= end:
            clock, generator = fresh(ActivityClock, narrow), fresh(Generator, narrow)
            generator.idle_after = narrow(MAX_TIME)
            clock.stood = narrow(stop - start)
            now = watermarks.activity_time(clock, narrow(end))
            assert now == end - (stop - start)
            assert watermarks.on_probe(generator, narrow(0)) == 0
            assert watermarks.on_probe(generator, now) == 0


def test_every_rule_that_the_kernel_calls_is_compiled() -> None:
    """Of a module that compiled.RULES leaves out, a kernel may fail to compile."""
    listed = _rule_modules()
    names = {module.__name__ for module in listed}
    kernel = [import_module(f"flowcontrol.kernel.{name}") for name in KERNEL.split()]
    called = {
        (module.__name__, one.__module__)
        for module in (*listed, *kernel)
        for one in vars(module).values()
        if isinstance(one, FunctionType) and one.__module__.startswith("flowcontrol.protocol.")
    }
    assert len(called) > 100
    assert [pair for pair in sorted(called) if pair[1] not in names] == []
