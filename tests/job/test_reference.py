"""Whole jobs in memory: by hand, resumed at any round, and with credits ignored."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from flowcontrol.errors import ProtocolError
from flowcontrol.kernel import loop
from flowcontrol.kernel import task as worker
from flowcontrol.kernel import views as v
from flowcontrol.kernel.credits import free_lent
from flowcontrol.kernel.views import wake
from flowcontrol.layout.job import Job
from flowcontrol.ledger.audit import audit
from modules import load
from staged_runs import RoundRows, resumed, round_rows, run_staged, staged

jobs = load("tests/job/small_jobs.py")

EDGE = "source->sink"


def cursors(rounds: Any, edge: str = EDGE) -> list[tuple[int, ...]]:
    """Sent, released, pool used; announced, consumed, floating held: of a single channel."""
    found = []
    for batch in rounds:
        [sent], [received] = batch.rows[edge]["sender"], batch.rows[edge]["receiver"]
        found.append(
            (
                *(sent[name] for name in ("sent", "released", "pool_used")),
                *(received[name] for name in ("announced", "consumed", "floating_held")),
            )
        )
    return found


# ---------------------------------------------------------------- by hand

# A record is one buffer. Five are due a round, the sink takes two. The gate has 2 exclusive and
# 3 floating buffers, the sender's pool 5 and no overdraft; the flusher runs at the end of each
# round. Worked out with pencil and paper from reference sections 1.3 to 1.6 and 2.5.
BY_HAND = [
    # sender:                  receiver:
    # sent, released, in pool; announced, consumed, floating held
    (2, 5, 3, 2, 0, 0),  # writes 5, sends 2 on its initial credit (backlogs 4, 3)
    (2, 7, 5, 7, 2, 3),  # writes 2: pool full / backlog 4: takes 3 floating, waits; reads both
    (7, 7, 0, 7, 2, 3),  # blocked; hears of 7: sends 5 (backlogs 4 to 0) / starves
    (7, 12, 5, 9, 4, 3),  # writes 5, no credit / gets 5; both floating that return are taken
    (9, 12, 3, 9, 6, 1),  # blocked; sends 2 / wants only 2: a floating one stays in the pool, and
    #                       an exclusive one that returns pushes one out: no credit for either
    (9, 14, 5, 13, 8, 3),  # writes 2, no credit / backlog 4: takes 2 floating, waits
    (13, 14, 1, 14, 9, 3),  # blocked; sends 4 / reads the last one
    (14, 18, 4, 16, 11, 3),  # writes 4, sends 1 / gets 4
    (16, 19, 3, 18, 13, 3),  # writes 1, sends 2 / gets 1
    (18, 21, 3, 20, 15, 3),  # writes 2, sends 2 / gets 2: at the sink's pace from here on
    (20, 23, 3, 22, 17, 3),
    (22, 25, 3, 24, 19, 3),
]


def test_a_single_channel_by_hand() -> None:
    made = jobs.job(
        [jobs.source(50, record_bytes=4096), jobs.sink(20)],
        [("source", "sink", "forward")],
        {jobs.FLOATING: 3, jobs.OVERDRAFT: 0},
        duration_s=1.2,
    )
    assert cursors(run_staged(made)) == BY_HAND


# Without a flusher the last full buffer stays unseen until the next one is begun, and does not
# count in the backlog (reference 2.5). Two records a round on both sides.
NEVER_FLUSHED = [
    (1, 2, 1, 2, 0, 0),  # writes 2, the second unseen: sends 1 (backlog 0)
    (2, 4, 2, 3, 1, 0),  # one credit left (backlog 1) / takes 1 floating, returns it at once
    (3, 6, 3, 5, 2, 1),  # sends 1 (backlog 2) / takes 2 floating, returns one
    (5, 8, 3, 7, 3, 2),  # sends 2
]


def test_a_channel_without_flusher_by_hand() -> None:
    made = jobs.job(
        [jobs.source(20, record_bytes=4096), jobs.sink(20)],
        [("source", "sink", "forward")],
        {jobs.FLOATING: 3, jobs.OVERDRAFT: 0, jobs.FLUSH: -1},
        duration_s=0.4,
    )
    assert cursors(run_staged(made)) == NEVER_FLUSHED


# Without exclusive buffers a sender that has no credit announces its backlog when there is data
# that its receiver does not know of (reference 2.2), in a message that needs no credit.
NO_EXCLUSIVE = {
    # A record is a buffer; five are due a round, the sink takes two, 3 floating buffers; the
    # sender's pool has 3 too. A flush at the end of each round.
    (50, 20, 3, "100ms"): [
        (0, 3, 3, 0, 0, 0),  # writes 3: pool full; announces 3
        (0, 3, 3, 3, 0, 3),  # the receiver is told / takes 3 floating
        (3, 3, 0, 3, 0, 3),  # blocked; sends 3 (backlogs 2, 1, 0)
        (3, 6, 3, 3, 2, 1),  # writes 3, announces 3 / reads 2, whose buffers go to the pool
        (3, 6, 3, 6, 3, 3),  # blocked / takes 2 floating, waits; the one that it reads comes back
        (6, 6, 0, 6, 3, 3),
        (6, 9, 3, 6, 5, 1),
        (6, 9, 3, 9, 6, 3),
    ],
    # The same without a flusher: the last of three is not in the backlog.
    (50, 20, 3, -1): [
        (0, 3, 3, 0, 0, 0),  # writes 3, announces 2
        (0, 3, 3, 2, 0, 2),
        (2, 3, 1, 2, 0, 2),  # sends 2 (backlogs 1, 0)
        (2, 5, 3, 2, 2, 0),  # writes 2: so the one before is full; announces 2 / reads both
        (2, 5, 3, 4, 2, 2),
        (4, 5, 1, 4, 2, 2),
        (4, 7, 3, 4, 4, 0),
    ],
    # One record a round on both sides: a backlog that grows is not announced again, nor one that
    # a message told of.
    (10, 10, 8, "100ms"): [
        (0, 1, 1, 0, 0, 0),  # announces 1
        (0, 2, 2, 1, 0, 1),  # says nothing / takes 1
        (1, 3, 2, 1, 0, 1),  # sends 1 (backlog 2)
        (1, 4, 3, 3, 1, 2),  # no credit, and says nothing / wants 2: takes 2
        (3, 5, 2, 3, 1, 2),  # sends 2 (backlogs 3, 2)
        (3, 6, 3, 5, 2, 3),  # takes 2 for the backlog of 3; reads 1
        (5, 7, 2, 5, 3, 2),
    ],
}


@pytest.mark.parametrize(("due", "taken", "floating", "flush"), NO_EXCLUSIVE)
def test_a_channel_without_exclusive_buffers_by_hand(
    due: int, taken: int, floating: int, flush: Any
) -> None:
    expected = NO_EXCLUSIVE[due, taken, floating, flush]
    options = {jobs.EXCLUSIVE: 0, jobs.FLOATING: floating, jobs.OVERDRAFT: 0, jobs.FLUSH: flush}
    made = jobs.job(
        [jobs.source(due, record_bytes=4096), jobs.sink(taken)],
        [("source", "sink", "forward")],
        options,
        duration_s=len(expected) / 10,
    )
    rounds = list(run_staged(made))
    assert cursors(rounds) == expected
    assert audit(jobs.table(jobs.ledger_rows(rounds))) is None


# A local channel: no credit; a buffer is the producer's until the sink has consumed it. The
# pool has 5; what the receiver has consumed is known, and free, a round later.
LOCAL = [
    (5, 5, 5, 0, 0, 0),  # hands 5 over
    (5, 5, 5, 5, 2, 0),  # blocked / gets 5, reads 2
    (7, 7, 5, 5, 4, 0),  # writes 2
    (9, 9, 5, 7, 6, 0),
    (11, 11, 5, 9, 8, 0),
    (13, 13, 5, 11, 10, 0),
]


def test_a_local_channel_by_hand() -> None:
    made = jobs.job(
        [jobs.source(50, record_bytes=4096, placement=[0]), jobs.sink(20, placement=[0])],
        [("source", "sink", "forward")],
        {jobs.FLOATING: 3, jobs.OVERDRAFT: 0},
        duration_s=0.6,
    )
    assert cursors(run_staged(made)) == LOCAL


# ---------------------------------------------------------------- resumed, repeated


def begun_anew(made: Job) -> Iterator[RoundRows]:
    """Run a job that begins anew before every third round, from what was published."""
    own = staged(made)
    for number in range(made.rounds):
        if number % 3 == 1:
            own.restart()
        state = own.run()
        yield RoundRows(number, round_rows(made, state.tasks, number), state)


@pytest.mark.parametrize("name", ["single", "fan_in", "two_by_two", "local", "slow_sink", "mixed"])
def test_a_run_resumed_again_and_again_goes_on_as_if_it_had_not_stopped(name: str) -> None:
    made = jobs.GOOD[name]()
    whole = jobs.run(made)
    assert len(whole) == 40
    assert list(begun_anew(made)) == whole


def inside_an_output(jobs: ModuleType) -> Job:
    """A map puts out more than can be written, and part of a record is left over."""
    stages = [
        jobs.source(100, placement=[0], record_bytes=200),
        {"name": "map", "placement": [1], "selectivity": 1.5, "record_bytes": 24_000},
        jobs.sink(10, placement=[2]),
    ]
    edges = [("source", "map", "forward"), ("map", "sink", "forward")]
    made: Job = jobs.job(stages, edges, cluster={"task_managers": 3})
    return made


def test_a_task_goes_on_inside_an_output() -> None:
    made = inside_an_output(jobs)
    whole = list(run_staged(made))
    left = [batch.state.task("map").partitions[0].left_bytes for batch in whole]
    assert any(nbytes > 0 for nbytes in left[::3]), "when it begins anew"
    assert list(begun_anew(made)) == whole


def test_a_finished_run_has_nothing_to_resume() -> None:
    assert list(resumed(jobs.single(), 40)) == []


def shuffled(jobs: ModuleType, seed: int) -> Any:
    stages = [jobs.source(200), jobs.sink(60, parallelism=3)]
    return jobs.job(stages, [("source", "sink", "shuffle")], seed=seed)


def test_the_seed_decides_everything() -> None:
    first, again, other = (jobs.run(shuffled(jobs, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_only_shuffle_draws_from_the_seed() -> None:
    stages = [jobs.source(200), jobs.sink(60, parallelism=3)]
    runs = [
        jobs.run(jobs.job(stages, [("source", "sink", "rebalance")], seed=seed)) for seed in (7, 8)
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("record_bytes", [1, 400, 512, 1365, 4095, 4096, 4097])
def test_emitting_at_once_is_emitting_one_by_one(
    monkeypatch: pytest.MonkeyPatch, record_bytes: int
) -> None:
    """A source with one channel writes what fits into its open buffer of 4,096 bytes in one go.

    Of larger records than half of it each but the first fills one: they are not tried.
    """
    stages = [jobs.source(300, record_bytes=record_bytes), jobs.sink(100)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.FLUSH: "200ms"}, duration_s=2)
    quick = jobs.run(made)
    calls: list[int] = []

    def never(*_: object) -> int:
        calls.append(1)
        return 0

    monkeypatch.setattr(worker, "write_run", never)
    assert jobs.run(made) == quick
    assert bool(calls) == (2 * record_bytes <= 4096)


# ---------------------------------------------------------------- credits ignored


def tampered(made: Job, extra: int, start: int, last: int = 1000) -> Iterator[RoundRows]:
    """Run a job whose senders see more in some rounds than is announced; of local ones consumed."""
    own, read = staged(made), loop.read_credits

    def read_more(m: Any, task: Any) -> None:
        read(m, task)
        if not start <= m.now <= last:
            return
        for number in range(task.first_partition, task.first_partition + task.partitions):
            part = v.partition_row(m, number)
            for place in range(part.channels):
                out = v.out_row(m, part.first_channel + place)
                if out.is_local == 1:
                    free_lent(m, v.partition_of(m, number), place, out.sent)
                else:
                    out.announced = v.in_row(m, out.input).announced + extra
                v.set_bit(m, part.dirty, place)

    with mock.patch.object(loop, "read_credits", read_more):
        for number in range(made.rounds):
            for replica, _ in own._stages:
                for task in replica.own:
                    wake(replica.memory.head, task, number)
            state = own.run()
            yield RoundRows(number, round_rows(made, state.tasks, number), state)


def run_until_refused(made: Any, *how: int) -> tuple[list[Any], ProtocolError | None]:
    rounds = []
    try:
        for batch in tampered(made, *how):
            rounds.append(batch)
    except ProtocolError as error:
        return rounds, error
    return rounds, None


def test_a_sender_that_ignores_credit_is_stopped_by_the_receiver() -> None:
    """It sends all it has in round 12; in round 13 the receiver has no buffer for a message."""
    made = jobs.single()
    rounds, error = run_until_refused(made, 100, 12)
    assert "round 13: a message came without a buffer" in str(error)
    assert len(rounds) == 13
    found = audit(jobs.table(jobs.ledger_rows(rounds)))
    assert found is not None
    assert (found.invariant, found.batch_id) == ("sent_within_announced", 12)
    assert "sent <= announced as the sender saw it, but 37 > 32" in found.message


@pytest.mark.parametrize(("rate", "invariant"), [(300, "sent_within_announced"), (20, "credit")])
def test_one_credit_too_many_is_seen_by_the_audit_only(rate: int, invariant: str) -> None:
    """The receiver happens to have a buffer for it, or the sender has nothing to send for it."""
    stages = [jobs.source(rate), jobs.sink(500)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.FLUSH: "200ms"})
    rounds, error = run_until_refused(made, 1, 5, 5)
    assert error is None
    assert len(rounds) == 40
    found = audit(jobs.table(jobs.ledger_rows(rounds)))
    assert found is not None
    assert (found.invariant, found.batch_id) == (invariant, 5)


def test_a_producer_that_ignores_its_local_consumer_is_named() -> None:
    """It takes every buffer back as soon as it was handed over."""
    rounds, _ = run_until_refused(jobs.local(), 0, 0)
    found = audit(jobs.table(jobs.ledger_rows(rounds)))
    assert found is not None
    assert found.invariant == "local_handed_over"


@pytest.mark.parametrize(
    ("name", "start", "invariant"),
    [("single", 12, "sent_within_announced"), ("fan_in", 8, "sent_within_announced")],
)
def test_every_round_of_an_honest_run_passes_and_of_the_other_does_not(
    name: str, start: int, invariant: str
) -> None:
    made = jobs.GOOD[name]()
    assert audit(jobs.table(jobs.ledger_rows(jobs.run(made)))) is None
    rounds, _ = run_until_refused(made, 100, start)
    found = audit(jobs.table(jobs.ledger_rows(rounds)))
    assert found is not None
    assert found.invariant == invariant
    assert found.batch_id >= start
