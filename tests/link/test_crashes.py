"""Both ends killed, stopped and started again anywhere: nothing lost, doubled or too much."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from flowcontrol.ledger import commit as commits
from flowcontrol.link import receiver as receiver_module
from modules import load

dry = load("tests/link/dry.py")
verify = load("tests/link/verify.py")

SENDER_POINTS = [
    "planned",
    "after-claim",
    "before exchange",
    "after exchange",
    "before ledger",
    "after ledger",
    "before-exchange",
    "before-ledger",
    "after-ledger",
    "before-release",
    "after-release",
    "ran",
]
RECEIVER_POINTS = [
    "after-claim",
    "before-ledger",
    "before ledger",
    "after ledger",
    "after-ledger",
    "planned",
    "noted",
    "read",
    "sunk",
]
PLACES = [
    *(("a", point) for point in SENDER_POINTS),
    *(("main", point) for point in RECEIVER_POINTS),
    # A new sender takes its number.
    ("senders", "before ledger"),
    ("senders", "after ledger"),
]


def tidy(patch: pytest.MonkeyPatch) -> None:
    """Checkpoint every few commits and keep no log behind a checkpoint."""
    patch.setattr(commits, "CHECKPOINT_EVERY", 5)
    patch.setitem(commits.CONFIGURATION, "delta.logRetentionDuration", "interval 0 milliseconds")


def small_pipeline(make, dry):
    pipeline = make(channels=2, exclusive_buffers=1, floating_buffers=1)
    batches = [
        dry.source_rows("a", 8 * n, [i % 2 for i in range(8)], [400, 400, 1500, 20] * 2)
        for n in range(2)
    ]
    pipeline.sender("a", batches)
    pipeline.receiver("main")
    return pipeline


def test_the_named_points_are_those_that_are_passed(make):
    pipeline = small_pipeline(make, dry)
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert set(pipeline.passed) == set(PLACES)


TWICE = [("a", "after exchange"), ("a", "before-release"), ("main", "after-ledger")]
"""Where the quick form kills later as well: between the commits of a batch, and behind one."""


@pytest.mark.parametrize(
    ("place", "passes"),
    [
        pytest.param(
            place,
            passes,
            marks=[pytest.mark.long] * (passes == 2 and place not in TWICE),
            id=f"{'-at-'.join(place)}-{passes}",
        )
        for passes in (1, 2)
        for place in PLACES
    ],
)
def test_a_kill_at_a_named_point_changes_nothing(make, place, passes):
    """The same point is also met again by the one who comes after."""
    pipeline = small_pipeline(make, dry)
    kills = quiet = 0
    while quiet < dry.QUIET_ROUNDS:
        if kills < 2 and pipeline.passed.count(place) >= passes - 1:
            pipeline.arm(*place)
        was_armed = pipeline.is_armed
        moved = sum(query.advance() for query in pipeline.queries)
        kills += was_armed and not pipeline.is_armed
        quiet = 0 if moved else quiet + 1
    pipeline.disarm()
    pipeline.drain()
    assert kills or passes > 1, "nobody was killed"
    verify.check_pipeline(pipeline)
    assert pipeline.receivers[0].rows.num_rows == 16


# ---------------------------------------------------------------------- anything, anywhere

SIZES = st.sampled_from([10, 100, 300, 300, 1000, 2500])
BATCH = st.just([]) | st.lists(st.tuples(st.integers(0, 2), SIZES), min_size=8, max_size=30)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 4), st.integers(1, 4)),
        st.tuples(st.just("advance"), st.integers(0, 4), st.integers(1, 4)),
        st.tuples(st.just("kill"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("kill at"), st.integers(0, 4), st.integers(0, 11)),
        st.tuples(st.just("kill at"), st.integers(0, 4), st.integers(0, 11)),
        st.tuples(st.just("stop"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("join"), st.just(0), st.just(0)),
    ),
    min_size=8,
    max_size=40,
)
RECEIVERS = {
    "one": [("main", "")],
    "two names": [("main", ""), ("other", "")],
    "a subset each": [("main", "0"), ("main", "1,2")],
    "both": [("main", "0"), ("main", "1,2"), ("other", "")],
}


@settings(max_examples=max(1, settings.default.max_examples // 8))
@given(
    batches=st.lists(st.lists(BATCH, min_size=2, max_size=5), min_size=1, max_size=2),
    exclusive=st.integers(1, 2),
    floating=st.sampled_from([0, 1, 4]),
    spill=st.sampled_from([0, 0, 2000]),
    readers=st.sampled_from(sorted(RECEIVERS)),
    target_s=st.sampled_from([None, None, 0.5, 5.0]),
    detach=st.sampled_from([None, None, 3000]),
    most=st.sampled_from([None, 20_000]),
    is_cleaned=st.booleans(),
    tasks=st.integers(1, 3),
    actions=ACTIONS,
)
def test_whatever_happens_everything_arrives_once_and_in_order(
    batches, exclusive, floating, spill, readers, target_s, detach, most, is_cleaned, tasks, actions
):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if is_cleaned:
            tidy(patch)
        # Every batch takes a fifth of a second, however small: so messages are read in parts.
        patch.setattr(receiver_module, "time", Clock(0.2))
        pipeline = dry.Pipeline(
            Path(folder) / "link",
            channels=3,
            exclusive_buffers=exclusive,
            floating_buffers=floating,
            spill_bytes=spill,
            target_batch_s=target_s,
            detach_after_bytes=detach,
            max_pool_bytes=most,
        )
        pipeline.may_detach = True
        for name, own in zip("ab", batches, strict=False):
            tables = [
                dry.source_rows(name, 100 * n, [c for c, _ in rows], [size for _, size in rows])
                for n, rows in enumerate(own)
            ]
            pipeline.sender(name, tables, tasks=tasks)
        for name, channels in RECEIVERS[readers]:
            pipeline.receiver(name, channels).open().initialOffset()  # there from the start
        try:
            for action in actions:
                act(pipeline, *action)
            pipeline.disarm()
            pipeline.drain()
            verify.check_pipeline(pipeline)
            event(f"cut off: {sum(query.is_detached for query in pipeline.receivers)}")
            event(f"killed: {min(9, pipeline.kills)}")
        finally:
            pipeline.close()


class Clock:
    """A clock that goes on by so many seconds whenever somebody looks at it."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def act(pipeline, kind, which, number):
    """Do one thing to one of the queries."""
    query = pipeline.queries[which % len(pipeline.queries)]
    if kind == "advance":
        for _ in range(number):
            query.advance()
    elif kind == "kill":
        query.kill()
    elif kind == "kill at":
        points = SENDER_POINTS if query in pipeline.senders.values() else RECEIVER_POINTS
        pipeline.arm(query.name, points[number % len(points)])
        for _ in range(6):
            if pipeline.is_armed:
                query.advance()
                pipeline.queries[number % len(pipeline.queries)].advance()
        pipeline.disarm()
    elif kind == "stop" and query in pipeline.senders.values():
        query.stop(is_noted=bool(number))
    elif kind == "join" and not any(query.is_late for query in pipeline.receivers):
        pipeline.receiver("late").is_late = True
