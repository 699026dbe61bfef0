"""What a task of Flink 1.4 puts aside behind barriers, by hand and against the plain form of it."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from flowcontrol.systems import barrier_buffer as bb
from modules import load

tasks = load("tests/systems/barrier_buffers.py")

EXAMPLES = settings.default.max_examples


def run(tasks: ModuleType, script: str, channels: int = 2, limit: int = -1) -> Any:
    own = tasks.Aligning(channels, limit)
    for text in script.split():
        own.arrive(text)
        own.poll()
    return own


BY_HAND = {  # the messages in their order: what the task takes up, in its order
    "nothing is aligned": ("a1 b1 a2 b2", "a1 b1 a2 b2"),
    "behind the barrier waits": ("a1 a|1 a2 b1 a3 b2 b|1 a4", "a1 b1 b2 T1 a2 a3 a4"),
    "nothing came behind it": ("a|1 b1 b|1 a1 b2", "b1 T1 a1 b2"),
    "both at once": ("a|1 b|1 b1 a1", "T1 b1 a1"),
    "played back before what is new": ("a|1 a1 a2 b|1 b1", "T1 a1 a2 b1"),
    "two alignments": ("a|1 a1 b|1 b|2 b1 a2 a|2 a3", "T1 a1 a2 T2 b1 a3"),
    "the next barrier was put aside too": ("a|1 a1 a|2 a2 b1 b|1 b2 b|2", "b1 T1 a1 b2 T2 a2"),
    "three of them": ("a|1 a|2 a1 a|3 a2 b|1 b1 b|2 b2 b|3", "T1 b1 T2 a1 b2 T3 a2"),
    "a newer one subsumes": ("a|1 a1 b1 b|2 a2 b2 a|2", "b1 X1 subsumed a1 a2 T2 b2"),
    "an older one is late": ("a|2 a1 b|1 b1 b|2", "b1 T2 a1"),
    "cancelled on the other channel": ("a|1 a1 b1 b!1 a2 b|1 b2", "b1 X1 cancelled a1 a2 b2"),
    "cancelled before any": ("a!1 a1 b|1 b1", "X1 cancelled a1 b1"),
    "an end gives it up": ("a|1 a1 b. a2", "b. X1 ended a1 a2"),
    "an end behind the barrier waits": ("a|1 a1 a. b1 b|1 b2", "b1 T1 a1 a. b2"),
    "one has ended before": ("a. b1 b|1 b2", "a. b1 T1 b2"),
    "an end gives up the one played back": ("a|1 a1 a|2 a2 b|1 b1 b.", "T1 a1 b1 b. X2 ended a2"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    script, expected = BY_HAND[name]
    own = run(tasks, script)
    assert " ".join(own.found) == expected
    assert own.gate.pool.in_use == 0, "what is put aside lies in no buffer"
    plain = tasks.Plain(2)
    for text in script.split():
        plain.feed(text)
    assert " ".join(plain.found) == expected


def test_three_channels_wait_for_the_last() -> None:
    own = run(tasks, "a|1 c1 a1 c|1 c2 b1 a2 b|1 b2", channels=3)
    assert " ".join(own.found) == "c1 b1 T1 a1 c2 a2 b2"


SIZES = {  # the messages: bytes written, read back, most at a time
    "a|1 b1 b|1": (0, 0, 0),
    "a|1 a1 a2 b1 b|1": (218, 218, 218),
    "a|1 a1 a|2 b|1": (156, 156, 156),  # a buffer 109, a barrier 47
    "a|1 a1": (109, 0, 109),
    "a|1 a1 a|2 a2 b|1": (109 + 47 + 2 * 109, 109 + 47 + 109, 109 + 47 + 109),  # a2 twice
}


@pytest.mark.parametrize("script", SIZES)
def test_sizes_by_hand(script: str) -> None:
    """What is put aside again is read and written again."""
    own = run(tasks, script).aside.own
    assert (own.written, own.read, own.most) == SIZES[script]


LIMITS = {  # limit, messages: what the task takes up
    (109, "a|1 a1 b1 b|1"): "b1 T1 a1",  # as much as may be
    (108, "a|1 a1 b1 b|1"): "X1 limit a1 b1",  # the barrier that comes later is ignored
    (217, "a|1 a1 b1 a2 b2"): "b1 X1 limit a1 a2 b2",
    (217, "a|1 a1 b|1 a|2 a2 b|2"): "T1 a1 T2 a2",  # each file by itself
    (108, "a|1 a1 a2 b|1 a|2 b|2 b1"): "X1 limit a1 a2 T2 b1",
    (46, "a|1 a|2 b1 b|2"): "X1 limit b1 T2",  # an event counts as well
}


@pytest.mark.parametrize(("limit", "script"), LIMITS)
def test_the_limit_by_hand(limit: int, script: str) -> None:
    own = run(tasks, script, limit=limit)
    assert " ".join(own.found) == LIMITS[limit, script]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (577, "T1 X2 subsumed a1 T3 a2 c1"),
        (576, "T1 X2 subsumed a1 X3 limit a2 c1"),  # the barrier of b comes too late
    ],
)
def test_a_file_that_waits_counts_whole(limit: int, expected: str) -> None:
    """The first file has 468 bytes. In it c|3 ends alignment 2, so what of it is put aside by then,
    a1 a|3 a2, comes first: c1 is left, and its file counts whole when a2 is put aside again.
    """
    script = "a|1 c|1 a|2 a1 a|3 a2 c|3 c1 b|1 b|3"
    own, plain = run(tasks, script, 3, limit), tasks.Plain(3, limit)
    for text in script.split():
        plain.feed(text)
    assert " ".join(own.found) == " ".join(plain.found) == expected
    assert plain.pushed_back == 1


def test_records_put_aside_do_not_wait_to_be_taken_up() -> None:
    """So a task that waits for a barrier is idle; they do wait once they may be polled."""
    own = tasks.Aligning(2)
    for text in ("a|1", "a1", "a2"):
        own.arrive(text)
    assert (own.task.queued, own.task.withheld) == (2, 0)
    own.poll()
    assert (own.task.queued, own.task.withheld, own.channels[0].aside) == (2, 2, 200)
    own.arrive("b|1")
    own.poll()
    assert (own.task.queued, own.task.withheld, own.channels[0].aside) == (0, 0, 0)
    assert len(own.found) == 3


# ---------------------------------------------------------------- the disk


def test_a_buffer_returns_when_it_is_written() -> None:
    """109 bytes at a byte a nanosecond, rounds of 50 ns: seen in rounds 3, 5 and, later, 10."""
    own = tasks.Aligning(2, disk=bb.AsideDisk(0, 1, 1, 50))
    in_use = []
    for now in range(12):
        for text in {0: ("a|1", "a1", "a2"), 7: ("a3",)}.get(now, ()):
            own.arrive(text)
        own.poll(now)
        in_use.append(own.gate.pool.in_use)
    assert in_use == [2, 2, 2, 1, 1, 0, 0, 1, 1, 1, 0, 0]
    assert own.aside.disk.ready == 350 + 109


def test_a_file_is_played_back_as_it_is_read() -> None:
    """Two buffers are written by 218 ns, and read by 436: they are there in round 9, not before."""
    own = tasks.Aligning(2, disk=bb.AsideDisk(0, 1, 1, 50))
    for text in ("a|1", "a1", "a2", "b|1", "b1"):
        own.arrive(text)
        own.poll()
    taken = []
    for now in range(11):
        own.poll(now)
        taken.append(" ".join(own.found))
    assert taken == ["T1"] * 9 + ["T1 a1 a2 b1"] * 2
    assert own.aside.own.loaded == own.aside.own.loading == 0


def test_a_long_file_is_read_a_mebibyte_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here 250 bytes at a time: two buffers and 32 bytes of the third, then the rest."""
    monkeypatch.setattr(bb, "READ_BYTES", 250)
    own = tasks.Aligning(2, disk=bb.AsideDisk(0, 1, 1, 50))
    for text in ("a|1", "a1", "a2", "a3", "b|1"):
        own.arrive(text)
        own.poll()
    taken = dict[int, int]()
    for now in range(20):
        own.poll(now)
        taken.setdefault(len(own.found), now)
    # written by 327; 250 read by 577, seen in 12; the other 77 are asked for then: by 677, in 14
    assert taken == {1: 0, 3: 12, 4: 14}


# ---------------------------------------------------------------- random sequences


@st.composite
def scripts(draw: Any) -> tuple[int, int, list[str]]:
    """Channels, a limit, and messages: checkpoints in order on each channel, some left out."""
    channels = draw(st.sampled_from([3, 2]))
    left = {}
    for channel in range(channels):
        own: list[str] = []
        name = chr(ord("a") + channel)
        for number in range(1, draw(st.integers(1, 4)) + 1):
            own += [f"{name}{len(own)}" for _ in range(draw(st.integers(0, 2)))]
            kind = draw(st.sampled_from("|||||||!--"))
            own += [] if kind == "-" else [f"{name}{kind}{number}"]
        own += [f"{name}{len(own)}" for _ in range(draw(st.integers(0, 2)))]
        own += [f"{name}."] if draw(st.sampled_from([True, False, False])) else []
        left[channel] = own
    order = list[str]()
    while any(left.values()):
        there = [channel for channel in left if left[channel]]
        chosen = draw(st.sampled_from(there))
        count = draw(st.integers(1, 3))
        order += left[chosen][:count]
        left[chosen] = left[chosen][count:]
    limit = draw(st.sampled_from([-1, -1, -1, 150, 400, 800]))
    return channels, limit, order


@st.composite
def nested(draw: Any) -> tuple[int, int, list[str]]:
    """Alignments 2 and 3 within the file of the first, which the middle channel holds up."""
    left = {
        "a": ["", "a|2", "", "a|3", ""],
        "c": ["", draw(st.sampled_from(["c|2", "c!2", "c|3", "c|3"])), ""],
    }
    order, number = ["a|1", "c|1"], 0
    while any(left.values()):
        name = draw(st.sampled_from([name for name in left if left[name]]))
        text = left[name].pop(0)
        count = 0 if text else draw(st.integers(0, 3))
        order += [text] if text else [f"{name}{number + i}" for i in range(count)]
        number += count
    limit = draw(st.sampled_from([-1, 500, 700, 900]))
    return 3, limit, [*order, "b|1", *draw(st.sampled_from([["b|2", "b|3"], ["b|3"], ["b."]]))]


def test_random_sequences(draw_until: Any) -> None:
    """As the plain form takes them up; what is put aside comes back, and no entry is lost."""
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(drawn=st.one_of(scripts(), nested()))
    def look(drawn: tuple[int, int, list[str]]) -> None:
        channels, limit, order = drawn
        note(" ".join(order))
        own, plain = tasks.Aligning(channels, limit), tasks.Plain(channels, limit)
        for number, text in enumerate(order):
            own.arrive(text)
            own.poll()
            plain.feed(text)
            assert own.found == plain.found, f"after {number + 1}: {text}"
            held = own.aside.own
            assert held.written == plain.written
            assert sum(channel.aside for channel in own.channels) == sum(
                tasks.NBYTES for one in plain.file if one[1] not in tasks.EVENT_BYTES
            )
        assert own.gate.pool.in_use == 0
        bb.forget(own.aside)
        assert _free_entries(own.aside) == len(own.aside.entries)
        seen["put aside"] += plain.written > 0
        seen["a file waits"] += plain.pushed_back > 0
        for text in own.found:
            seen[text.split()[-1] if text[0] == "X" else text[0]] += text[0] in "TX"

    hard = ("put aside", "a file waits", "T", "subsumed", "cancelled", "ended", "limit")
    draw_until(look, lambda: min(seen[name] for name in hard) > 3, 40)
    print(dict(seen))
    assert [name for name in hard if seen[name] <= 3] == []


def _free_entries(aside: bb.Aside) -> int:
    count, number = 0, aside.free.free
    while number >= 0:
        count, number = count + 1, aside.entries[number].next
    return count
