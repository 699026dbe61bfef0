"""Event time of a link without queries: the rules of channels, senders and receivers."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_index import (
    ChannelLine,
    ChannelLog,
    FileEntry,
    Numbering,
    PackedRows,
    later_of,
)
from flowcontrol.link.event_time import (
    EventTimes,
    Held,
    Progress,
    ahead_of_others,
    check_event_column,
    is_quiet,
    progress_of,
    receiver_watermark,
)
from flowcontrol.link.packing import latest_times
from flowcontrol.link.settings import DEFAULTS, LinkSettings
from flowcontrol.spec import SourceAlignment
from flowcontrol.spec.event_time import WatermarkValve
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

TIMES = st.integers(MIN_TIME + 1, MAX_TIME) | st.integers(-50, 50)


def settings(**given):
    return LinkSettings("id", **{**DEFAULTS, "event_time_column": "at", **given}, schema="")


# ---------------------------------------------------------------------- times of rows


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), 1000),
        (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (pa.timestamp("s"), datetime(1970, 1, 1, 0, 1), 60_000),
        (pa.timestamp("ms"), datetime(1970, 1, 1, 0, 1), 60_000),
        (pa.timestamp("ns"), datetime(1970, 1, 1, 0, 1), 60_000),
        (pa.date32(), date(1970, 1, 3), 2 * 86_400_000),
        (pa.date32(), date(1969, 12, 31), -86_400_000),
        (pa.int64(), MAX_TIME, MAX_TIME),
        (pa.int64(), -7, -7),
    ],
)
def test_a_time_is_whole_milliseconds_rounded_down(kind, value, found):
    assert latest_times(pa.chunked_array([pa.array([value, None], kind)]), [0]) == [found]


@given(
    rows=st.lists(st.none() | TIMES, min_size=1, max_size=30),
    cuts=st.sets(st.integers(1, 29)),
    parts=st.integers(1, 4),
)
def test_the_latest_of_runs_of_rows(rows, cuts, parts):
    firsts = [0, *sorted(cut for cut in cuts if cut < len(rows))]
    size = -(-len(rows) // parts)
    chunks = [pa.array(rows[n : n + size], pa.int64()) for n in range(0, len(rows), size)]
    runs = [rows[a:b] for a, b in zip(firsts, [*firsts[1:], len(rows)], strict=True)]
    wanted = [max((one for one in run if one is not None), default=None) for run in runs]
    assert latest_times(pa.chunked_array(chunks), firsts) == wanted


@given(
    pieces=st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 250), st.none() | TIMES),
        min_size=1,
        max_size=12,
    ),
    files=st.integers(1, 3),
)
def test_a_message_has_the_latest_time_of_its_pieces(pieces, files):
    """Also of rows larger than a message, and of a message in several files."""
    size = -(-len(pieces) // files)
    packed = [
        PackedRows(
            f"file{first}",
            1,
            sum(rows for rows, _, _ in own),
            [(0, [(rows, nbytes) for rows, nbytes, _ in own])],
            latest=[latest for _, _, latest in own],
        )
        for first in range(0, len(pieces), size)
        if (own := pieces[first : first + size])
    ]
    log = ChannelLog()
    lines = Numbering({0: log}, 100).lines(packed)
    wanted: dict[int, int | None] = {}
    left = iter(latest for _, _, latest in pieces)
    for file, own in zip(packed, lines, strict=True):
        entry = FileEntry(0, 0, 1, 1, file.rows, (0, 0), 0, own)
        read = FileEntry.from_stats(entry.to_stats()).lines
        assert [line._replace(latest=list(line.latest)) for line in read] == own
        for number, rows, _ in own[0].pieces:
            wanted[number] = later_of(wanted.get(number), next(left) if rows else None)
        for piece in own[0].read(file.path):
            log.add(piece)
    assert {number: log.message(number).latest for number in range(log.end)} == wanted
    known = [latest for latest in wanted.values() if latest is not None]
    assert log.latest(0, log.end) == max(known, default=None)


def test_a_link_without_event_time_writes_what_it_always_wrote():
    line = ChannelLine(0, 0, 0, 0, 3, [[0, 3, 30]])
    assert FileEntry(0, 0, 1, 1, 3, (0, 0), 0, [line]).to_stats()["channels"] == [
        [0, 0, 0, 0, 3, [[0, 3, 30]]]
    ]


# ---------------------------------------------------------------------- watermarks


@given(st.lists(st.tuples(st.none() | TIMES, st.floats(0, 100)), min_size=1))
def test_a_watermark_is_the_latest_less_the_delay_and_never_falls(steps):
    times, latest, last = EventTimes(settings()), None, None
    for now, (moment, delay_s) in enumerate(steps):
        times.adopt(settings(watermark_delay_s=delay_s))
        times.note("a", moment)
        times.probe("a", now)
        latest = later_of(latest, moment)
        found = times.watermark("a")
        if latest is not None:
            bound = max(MIN_TIME, latest - round(1000 * delay_s) - 1)
            wanted = bound if last is None else max(last, bound)
            assert found == (None if wanted == MIN_TIME else wanted)
        assert found is not None or last is None
        last = found
        again = EventTimes(settings(watermark_delay_s=delay_s))
        again.restore("a", times.channel_state("a"))
        assert again.channel_state("a") == times.channel_state("a")


def test_another_column_begins_anew():
    times = EventTimes(settings())
    times.note("a", 1000)
    times.probe("a", 0)
    state = times.channel_state("a")
    other = settings(event_time_column="seen")
    times.adopt(other)
    assert times.watermark("a") is None
    again = EventTimes(other)
    again.restore("a", state)
    assert again.watermark("a") is None


def test_a_channel_is_idle_without_rows_and_not_while_rows_wait():
    times = EventTimes(settings(idle_after_s=1))
    times.note("a", 500)
    for now in (0, 1_000):
        times.probe("a", now)
    assert not times.of("a").is_idle
    for now in range(2_000, 60_000, 1_000):
        times.probe("a", now, has_rows=True)
    assert not times.of("a").is_idle
    times.probe("a", 60_000)  # the timer begins
    times.probe("a", 61_000)
    assert not times.of("a").is_idle
    times.probe("a", 61_001)
    assert times.of("a").is_idle
    quiet_since = times.channel_state("a")["quiet_since"]
    assert (is_quiet(quiet_since, 61_000, 1), is_quiet(quiet_since, 61_001, 1)) == (False, True)
    times.note("a", 501)
    times.probe("a", 62_000)
    assert not times.of("a").is_idle


def test_a_clock_that_is_set_back_does_not_put_off_when_a_channel_is_idle():
    """Found by the simulation's seed 1019364: the others waited until it had caught up."""
    times = EventTimes(settings(idle_after_s=1))
    for now in (90_000, 7_000, 8_001):
        assert not times.of("a").is_idle
        times.probe("a", now)
    assert times.of("a").is_idle


# ---------------------------------------------------------------------- senders that wait


@pytest.mark.parametrize(
    ("senders", "ahead"),
    [
        ({}, []),
        ({0: Progress(9_000, False)}, []),
        ({0: Progress(9_000, False), 1: Progress(8_000, False)}, []),
        ({0: Progress(9_001, False), 1: Progress(8_000, False)}, [0]),
        ({0: Progress(0, False), 1: Progress(9_000, False), 2: Progress(1_001, False)}, [1, 2]),
        ({0: Progress(9_000, False), 1: Progress(0, True)}, []),
        ({0: Progress(9_000, False), 1: Progress(0, False, True)}, []),
        ({0: Progress(9_000, False), 1: Progress(MIN_TIME, False)}, []),
        ({0: Progress(9_000, False), 1: Progress(MIN_TIME, True)}, []),
        ({0: Progress(9_000, True), 1: Progress(0, True)}, []),
        ({0: Progress(9_000, True), 1: Progress(0, False)}, [0]),
        ({0: Progress(MAX_TIME, False), 1: Progress(MAX_TIME - 5, False)}, []),
    ],
)
def test_who_is_too_far_ahead(senders, ahead):
    assert ahead_of_others(senders, 1.0) == frozenset(ahead)
    assert ahead_of_others(senders, None) == frozenset()


@given(
    st.dictionaries(
        st.integers(0, 9), st.builds(Progress, TIMES, st.booleans(), st.booleans()), max_size=6
    ),
    st.integers(0, 200),
)
def test_it_is_the_alignment_of_sources_and_the_slowest_goes_on(senders, drift):
    group = SourceAlignment(drift)
    for number, own in senders.items():
        group.report(number, MAX_TIME if own.is_idle or own.is_finished else own.watermark)
    ahead = ahead_of_others(senders, drift / 1000)
    assert ahead == {n for n, own in senders.items() if group.is_paused(n, own.watermark)}
    counting = {n for n, own in senders.items() if not own.is_idle and not own.is_finished}
    if counting:
        assert min(counting, key=lambda n: senders[n].watermark) not in ahead
    else:
        assert not ahead


def test_a_sender_is_as_far_as_its_most_advanced_channel_and_idle_if_all_are():
    assert progress_of([(5, True), (9, False)]) == Progress(9, False)
    assert progress_of([(5, True), (9, True)], is_finished=True) == Progress(9, True, True)


# ---------------------------------------------------------------------- a receiver's watermark


@given(
    st.integers(1, 4).flatmap(
        lambda count: st.lists(
            st.tuples(st.integers(0, count - 1), st.none() | st.booleans() | st.integers(0, 20)),
            max_size=30,
        ).map(lambda steps: (count, steps))
    )
)
def test_it_is_that_of_a_valve(case):
    """A valve that has seen every step, beside one look after each."""
    count, steps = case
    valve, last = WatermarkValve(count), None
    own: list[tuple[int, bool]] = [(MIN_TIME, False)] * count
    for channel, step in steps:
        watermark, is_idle = own[channel]
        if isinstance(step, bool) or step is None:
            valve.status(channel, idle=bool(step))
            own[channel] = watermark, bool(step)
        else:  # a watermark makes an idle channel active, as a generator does
            if is_idle and step > watermark:
                valve.status(channel, idle=False)
            valve.watermark(channel, step)
            moved = step > watermark
            own[channel] = max(watermark, step), is_idle and not moved
        held = receiver_watermark(own, last)
        assert held.watermark == (None if valve.last == MIN_TIME else valve.last)
        for place in held.by:
            watermark, is_idle = own[place]
            assert not is_idle
            assert watermark == (MIN_TIME if held.watermark is None else held.watermark)
        last = held.watermark


def test_what_holds_it_back():
    assert receiver_watermark([], 5) == Held(5, frozenset())
    assert receiver_watermark([(9, False), (7, False), (7, False)], None) == Held(7, {1, 2})
    assert receiver_watermark([(9, False), (7, True)], None) == Held(9, {0})
    assert receiver_watermark([(9, False), (7, False)], 8) == Held(9, {0})  # 7 came back late
    assert receiver_watermark([(9, True), (7, True)], None) == Held(9, frozenset())
    assert receiver_watermark([(9, False), (MIN_TIME, False)], None) == Held(None, {1})


# ---------------------------------------------------------------------- the column


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "bigint"])
def test_columns_that_are_a_time(kind):
    check_event_column("p", "at", {"id": "int", "at": kind})
    check_event_column("p", None, {"id": "int"})


@pytest.mark.parametrize("kind", ["string", "int", "double", "array<timestamp>", "decimal(10,0)"])
def test_columns_that_are_none(kind):
    with pytest.raises(LinkError, match=r"link p .*event_time_column 'at' has the type .*: needs"):
        check_event_column("p", "at", {"id": "int", "at": kind})


def test_a_column_that_is_not_there():
    with pytest.raises(LinkError, match="'At' is not among the columns id, at: name one"):
        check_event_column("p", "At", {"id": "int", "at": "date"})
