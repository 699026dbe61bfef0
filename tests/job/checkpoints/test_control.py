"""The coordinator between rounds: what it makes of reports, and of a job that goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcontrol.control.checkpoints import CheckpointControl
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, DECLINED, ENDED, TAKEN
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.queues import MOST_BARRIERS
from modules import load
from staged_runs import resumed, run_staged

small = load("tests/job/checkpoints/small.py")


def acknowledged(task: int, checkpoint: int, number: int) -> list[CheckpointReport]:
    """What a task reports that takes a checkpoint in a round."""
    return [CheckpointReport(task, kind, checkpoint, number) for kind in (TAKEN, ACKNOWLEDGED)]


def test_reports_count_when_they_arrive_however_late_they_are_looked_at() -> None:
    """Task 1 has answered in round 11, task 2 in 13, task 0 in 15; it looks in round 19."""
    control = CheckpointControl(small.chain({"source": 10, "map": 10, "sink": 10}))
    assert control.next_round() == 10
    assert [order[:2] for order in control.before_round(10)] == [(0, "trigger")]
    control.hear([*acknowledged(0, 1, 15), *acknowledged(2, 1, 13), *acknowledged(1, 1, 11)])
    assert control.next_round() == 20  # nobody waits
    assert control.before_round(19) == []
    own = control.coordinator
    times = {task: one.acknowledged for task, one in own.task_statistics(1).items()}
    assert times == {1: 1_200_000, 2: 1_400_000, 0: 1_600_000}
    assert own.statistics(1).ended == 1_600_000


def test_a_queued_trigger_makes_it_look_at_what_it_hears() -> None:
    """Checkpoint 1 is still pending at 2000: the second waits for it."""
    control = CheckpointControl(small.chain({"source": 10, "sink": 10}))
    control.before_round(20)
    control.hear([*acknowledged(0, 1, 20), *acknowledged(1, 1, 22)])
    assert control.is_waiting
    assert control.next_round() == 21
    assert control.before_round(21) == []
    assert control.next_round() == 23
    [order] = control.before_round(23)
    assert (order.kind, order.message.checkpoint, order.message.arrives) == ("trigger", 2, 24)
    assert order.message.created == 2_300_000


@pytest.mark.parametrize("kind", [DECLINED, ENDED])
def test_what_is_no_acknowledgement_is_looked_at_when_it_arrives(kind: int) -> None:
    control = CheckpointControl(small.chain({"source": 10, "sink": 10}))
    control.before_round(10)
    control.hear([CheckpointReport(1, kind, 1, 12, reason=1)])
    assert control.next_round() == 13
    orders = control.before_round(13)
    assert [order.kind for order in orders] == (["abort", "abort"] if kind == DECLINED else [])


def test_no_more_than_so_many_barriers_are_under_way() -> None:
    """The sink never answers: a checkpoint too many is declined, and nobody hears of it."""
    made = small.with_settings(
        small.chain({"source": 10, "sink": 10}),
        interval_us=100_000,
        timeout_us=100_000,
        tolerable_failures=1000,
    )
    control, triggered = CheckpointControl(made), 0
    for number in range(40):
        orders = control.before_round(number)
        triggered += sum(order.kind == "trigger" for order in orders)
        for order in orders:
            assert order.message.checkpoint <= MOST_BARRIERS
        control.hear(acknowledged(0, number, number))
    assert triggered == MOST_BARRIERS
    own = control.coordinator
    assert own.statistics(MOST_BARRIERS).status == "expired"
    assert own.statistics(MOST_BARRIERS + 1).status == "declined"


@pytest.mark.parametrize("after", [10, 11, 12, 14])
def test_a_job_that_is_being_stopped_goes_on_stopping(after: int) -> None:
    made = small.chain({"source": 100, "sink": 500}, savepoints=[{"at_s": 1, "stop": True}])
    made = replace(made, faults=None)
    whole = [batch.state for batch in run_staged(made)]
    assert [batch.state for batch in resumed(made, after + 1)] == whole[after + 1 :]
    assert whole[-1].task("source").state.is_finished == 1
