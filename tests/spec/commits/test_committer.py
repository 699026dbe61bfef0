"""The committer of Sink V2 by Flink 1.20's rules, step by step."""

from __future__ import annotations

import json

import pytest

from flowcontrol.spec import END_OF_INPUT, Committer


class Target:
    """What commits go to: answers by value, and the values that were tried."""

    def __init__(self, **answers):
        self.answers = {name: list(given) for name, given in answers.items()}
        self.tried = []

    def __call__(self, value):
        self.tried.append(value)
        left = self.answers.get(value)
        answer = left.pop(0) if left else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def make(*messages, **answers):
    target = Target(**answers)
    committer = Committer(target)
    assert committer.open(0) == []
    feed(committer, *messages)
    return committer, target


def feed(committer, *messages, now=0):
    return [output for message in messages for output in committer.add(now, message)]


def summary(subtask, checkpoint, count):
    return ("summary", subtask, checkpoint, count)


def file(subtask, checkpoint, value):
    return ("committable", subtask, checkpoint, value)


def test_committables_are_committed_at_the_completion_of_their_checkpoint():
    committer, target = make(summary(0, 1, 2), file(0, 1, "a"), file(0, 1, "b"))
    assert target.tried == []
    assert committer.notify_complete(5, 1) == [
        ("summary", 1, 2, 0, 0),
        ("committable", 0, 1, "a"),
        ("committable", 0, 1, "b"),
    ]
    assert committer.notify_complete(6, 1) == []
    assert target.tried == ["a", "b"]
    assert committer.next_time is None


def test_later_checkpoints_wait():
    committer, target = make(summary(0, 2, 1), file(0, 2, "a"))
    assert committer.notify_complete(5, 1) == []
    assert target.tried == []


def test_a_completion_commits_all_older_checkpoints_in_order():
    committer, target = make(
        *(summary(0, 3, 1), file(0, 3, "c")),
        *(summary(0, 1, 1), file(0, 1, "a")),
        *(summary(0, 2, 1), file(0, 2, "b")),
    )
    outputs = committer.notify_complete(5, 3)
    assert target.tried == ["a", "b", "c"]
    assert [output[1] for output in outputs if output[0] == "summary"] == [1, 2, 3]


def test_of_the_last_completed_checkpoint_only_complete_subtasks_are_committed():
    committer, _ = make(
        *(summary(0, 1, 2), file(0, 1, "a")),  # one of two
        *(summary(1, 1, 1), file(1, 1, "x")),
    )
    assert committer.notify_complete(5, 1) == [
        ("summary", 1, 2, 2, 0),  # two arrived of three; two are not done
        ("committable", 1, 1, "x"),
    ]


def test_of_older_checkpoints_incomplete_subtasks_are_committed_too():
    committer, _ = make(summary(0, 1, 2), file(0, 1, "a"))
    assert committer.notify_complete(5, 1) == []
    assert committer.notify_complete(6, 2) == [("summary", 1, 1, 1, 0), file(0, 1, "a")]


def test_the_rest_of_the_last_completed_one_is_committed_when_all_have_arrived():
    committer, target = make(summary(0, 1, 3), file(0, 1, "a"))
    committer.notify_complete(5, 1)
    assert feed(committer, file(0, 1, "b"), now=6) == []
    assert target.tried == []
    assert feed(committer, file(0, 1, "c"), now=7) == [
        ("summary", 1, 3, 0, 0),
        file(0, 1, "a"),
        file(0, 1, "b"),
        file(0, 1, "c"),
    ]


def test_late_ones_of_older_checkpoints_are_committed_one_by_one():
    """As after an unaligned barrier, which overtakes them."""
    committer, _ = make()
    committer.notify_complete(5, 2)
    assert feed(committer, summary(0, 1, 2), now=6) == []
    assert feed(committer, file(0, 1, "a"), now=7) == [("summary", 1, 1, 1, 0), file(0, 1, "a")]
    assert feed(committer, file(0, 1, "b"), now=8) == [("summary", 1, 2, 0, 0), file(0, 1, "b")]


def test_an_older_notification_that_comes_late_lowers_nothing():
    committer, target = make()
    committer.notify_complete(5, 3)
    committer.notify_complete(6, 1)
    feed(committer, summary(0, 3, 1), file(0, 3, "a"), now=7)
    assert target.tried == ["a"]


def test_a_summary_of_nothing_gives_no_output():
    committer, target = make(summary(0, 1, 0))
    assert committer.notify_complete(5, 1) == []
    assert (target.tried, committer.snapshot()) == ([], {"committables": []})


@pytest.mark.parametrize(("now", "is_tried"), [(1004, False), (1005, True), (2000, True)])
def test_a_retry_is_due_after_a_second(now, is_tried):
    committer, target = make(summary(0, 1, 1), file(0, 1, "a"), a=["retry"])
    assert committer.notify_complete(5, 1) == []
    assert committer.next_time == 1005
    outputs = committer.tick(now)
    assert outputs == ([("summary", 1, 1, 0, 0), file(0, 1, "a")] if is_tried else [])
    assert target.tried == ["a"] * (1 + is_tried)
    assert committer.next_time == (None if is_tried else 1005)


def test_retries_have_no_end():
    committer, target = make(summary(0, 1, 1), file(0, 1, "a"), a=["retry"] * 30)
    committer.notify_complete(0, 1)
    for second in range(1, 30):
        assert committer.tick(1000 * second) == []
        assert committer.next_time == 1000 * (second + 1)
    assert committer.tick(30_000) == [("summary", 1, 1, 0, 0), file(0, 1, "a")]
    assert len(target.tried) == 31


def test_a_completion_tries_at_once_what_waits_to_be_tried_again():
    committer, target = make(summary(0, 1, 1), file(0, 1, "a"), a=["retry", "retry"])
    committer.notify_complete(0, 1)
    assert committer.notify_complete(400, 2) == []
    assert target.tried == ["a", "a"]
    assert committer.next_time == 1000  # counted from the first that asked
    assert committer.notify_complete(500, 3) == [("summary", 1, 1, 0, 0), file(0, 1, "a")]
    assert committer.next_time is None


def test_others_are_not_held_up_by_a_retry():
    committer, _ = make(summary(0, 1, 2), file(0, 1, "a"), file(0, 1, "b"), a=["retry"])
    assert committer.notify_complete(0, 1) == [("summary", 1, 2, 1, 0), file(0, 1, "b")]
    assert committer.tick(1000) == [("summary", 1, 2, 0, 0), file(0, 1, "a")]


def test_a_value_can_be_replaced_for_the_retry():
    committer, target = make(summary(0, 1, 1), file(0, 1, "a"), a=[("retry", "a2")])
    committer.notify_complete(0, 1)
    assert committer.tick(1000)[1] == file(0, 1, "a2")
    assert target.tried == ["a", "a2"]


def test_a_known_failure_is_dropped_and_counted():
    committer, target = make(
        summary(0, 1, 2), file(0, 1, "a"), file(0, 1, "b"), a=["failed"], b=["retry"]
    )
    assert committer.notify_complete(0, 1) == []  # nothing was committed
    assert committer.tick(1000) == [("summary", 1, 2, 0, 1), file(0, 1, "b")]
    assert target.tried == ["a", "b", "b"]


def test_already_committed_counts_as_committed():
    committer, _ = make(summary(0, 1, 1), file(0, 1, "a"), a=["already"])
    assert committer.notify_complete(0, 1) == [("summary", 1, 1, 0, 0), file(0, 1, "a")]


def test_an_unknown_failure_is_raised_and_nothing_is_forgotten():
    error = OSError("the table is gone")
    committer, _ = make(
        summary(0, 1, 3), *(file(0, 1, name) for name in "abc"), b=[error], a=["already"]
    )
    with pytest.raises(OSError, match="the table is gone"):
        committer.notify_complete(0, 1)
    assert committer.snapshot() == {"committables": [[1, 0, 3, ["b", "c"], 1, 0]]}


def test_an_unknown_answer_is_refused():
    committer, _ = make(summary(0, 1, 1), file(0, 1, "a"), a=["done"])
    with pytest.raises(ValueError, match=r"commit\('a'\) returned 'done': needs None, 'already'"):
        committer.notify_complete(0, 1)


# -- the end of input ---------------------------------------------------------------------------


def test_the_end_of_input_waits_for_a_completion_which_commits_everything():
    committer, _ = make(
        *(summary(0, 4, 2), file(0, 4, "a")),  # incomplete
        *(summary(0, END_OF_INPUT, 1), file(0, END_OF_INPUT, "z")),
    )
    assert committer.end_of_input(3) == []
    assert committer.notify_complete(5, 2) == [
        *[("summary", 4, 1, 1, 0), file(0, 4, "a")],
        *[("summary", END_OF_INPUT, 1, 0, 0), file(0, END_OF_INPUT, "z")],
    ]
    # After it whatever comes is late.
    assert feed(committer, file(0, 4, "b"))[1:] == [file(0, 4, "b")]


def test_after_the_end_incomplete_subtasks_are_committed_too():
    committer, _ = make(summary(0, END_OF_INPUT, 2), file(0, END_OF_INPUT, "z"))
    committer.end_of_input(3)
    assert committer.notify_complete(5, 2) == [
        ("summary", END_OF_INPUT, 1, 1, 0),
        file(0, END_OF_INPUT, "z"),
    ]


def test_without_the_end_of_input_its_committables_wait():
    committer, target = make(summary(0, END_OF_INPUT, 1), file(0, END_OF_INPUT, "z"))
    assert committer.notify_complete(5, 7) == []
    assert target.tried == []


def test_a_retry_after_the_end_is_due_after_a_second_too():
    committer, target = make(summary(0, END_OF_INPUT, 1), file(0, END_OF_INPUT, "z"), z=["retry"])
    committer.end_of_input(1)
    assert committer.notify_complete(5, 7) == []
    assert target.tried == ["z"]
    assert committer.tick(1005)[1:] == [file(0, END_OF_INPUT, "z")]


# -- recovery -----------------------------------------------------------------------------------


def test_recovery_commits_at_once():
    committer, _ = make(*(summary(0, 1, 1), file(0, 1, "a")), *(summary(0, 2, 1), file(0, 2, "b")))
    state = json.loads(json.dumps(committer.snapshot()))
    again = Committer(target := Target(a=["already"]))
    assert again.open(50, state) == [
        *[("summary", 1, 1, 0, 0), file(0, 1, "a")],
        *[("summary", 2, 1, 0, 0), file(0, 2, "b")],
    ]
    assert target.tried == ["a", "b"]


@pytest.mark.parametrize(("checkpoint", "tried"), [(None, []), (1, []), (2, ["a"])])
def test_recovery_knows_the_restored_checkpoint(checkpoint, tried):
    """One of two has arrived for checkpoint 1; the other is in flight, and replayed."""
    committer, _ = make(summary(0, 1, 2), file(0, 1, "a"))
    again = Committer(target := Target())
    again.open(50, committer.snapshot(), checkpoint)
    assert target.tried == tried
    feed(again, file(0, 1, "b"), now=51)
    assert target.tried == ["a", "b"]


def test_a_recovery_leaves_the_state_as_it_was():
    """It may be restored a second time."""
    committer, _ = make(summary(0, 1, 2), file(0, 1, "a"))
    state = committer.snapshot()
    again = Committer(Target())
    again.open(50, state)
    feed(again, file(0, 1, "b"))
    assert state == committer.snapshot()


def test_recovery_retries_as_ever():
    committer, _ = make(summary(0, 1, 1), file(0, 1, "a"))
    again = Committer(Target(a=["retry"]))
    assert again.open(50, committer.snapshot()) == []
    assert again.next_time == 1050


def test_recovery_leaves_what_belongs_to_the_end_of_input():
    committer, _ = make(summary(0, END_OF_INPUT, 1), file(0, END_OF_INPUT, "z"))
    again = Committer(target := Target())
    assert again.open(50, committer.snapshot()) == []
    again.end_of_input(51)
    assert target.tried == []
    again.notify_complete(52, 9)
    assert target.tried == ["z"]


def test_what_is_finished_is_in_no_state_and_a_snapshot_stays_as_it_was():
    committer, _ = make(summary(0, 1, 2), file(0, 1, "a"))
    state = committer.snapshot()
    feed(committer, file(0, 1, "b"))
    committer.notify_complete(5, 1)
    committer.notify_complete(6, 2)
    assert committer.snapshot() == {"committables": []}
    assert state == {"committables": [[1, 0, 2, ["a"], 0, 0]]}


def test_a_killed_process_goes_on_between_any_two_calls():
    steps = [
        lambda c: c.open(0),
        lambda c: c.add(1, summary(0, 1, 2)),
        lambda c: c.add(2, file(0, 1, "a")),
        lambda c: c.notify_complete(3, 1),
        lambda c: c.add(4, file(0, 1, "b")),
        lambda c: c.add(5, summary(0, END_OF_INPUT, 1)),
        lambda c: c.add(6, file(0, END_OF_INPUT, "z")),
        lambda c: c.tick(1003),
        lambda c: c.tick(1004),
        lambda c: c.end_of_input(1005),
        lambda c: c.notify_complete(1006, 2),
    ]
    answers = {"a": ["retry"]}
    whole, killed = Target(**answers), Target(**answers)
    committer = Committer(whole)
    kept = json.dumps(Committer(killed).state())
    for step in steps:
        again = Committer(killed)
        again.restore(json.loads(kept))
        assert step(again) == step(committer)
        kept = json.dumps(again.state())
        assert json.loads(kept) == committer.state()
    assert killed.tried == whole.tried == ["a", "b", "a", "z"]


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (summary(0, 1, 3), "a second summary of subtask 0 for checkpoint 1: it announced 1 .* 3"),
        (summary(1, 1, -1), "announces -1 committables: needs at least 0"),
        (file(1, 1, "x"), "'x' of subtask 1 for checkpoint 1 without a summary"),
        (file(0, 2, "x"), "'x' of subtask 0 for checkpoint 2 without a summary"),
        (file(0, 1, "x"), "one more than the 1 that its summary announced"),
        (("update", 0, 1, "x"), "not 'update'"),
    ],
)
def test_messages_out_of_place_are_refused_and_change_nothing(message, text):
    committer, _ = make(summary(0, 1, 1), file(0, 1, "a"))
    before = committer.state()
    with pytest.raises(ValueError, match=text):
        committer.add(1, message)
    assert committer.state() == before


def test_a_state_of_another_kind_is_refused():
    committer, _ = make(summary(0, 1, 1))
    before = committer.state()
    with pytest.raises(ValueError, match=r"open\(\) takes what snapshot\(\) returned"):
        committer.open(1, {"open": "t1"})
    with pytest.raises(ValueError, match=r"restore\(\) what state\(\) returned"):
        committer.restore(committer.snapshot())
    assert committer.state() == before
