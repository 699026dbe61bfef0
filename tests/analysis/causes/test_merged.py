"""What is one cause: the same word of a stage from two edges, a task manager that stands still."""

from __future__ import annotations

from flowcontrol.analysis.causes.find import _merged
from flowcontrol.analysis.causes.run import Cause, Word


def cause(stage: str, word: Word, limited_s: float, *beside: str, text: str = "shown.") -> Cause:
    return Cause(stage, None, word, (text,), 0.9, limited_s=limited_s, beside=beside)


def test_two_edges_into_a_stage_are_one_cause_with_the_evidence_of_both() -> None:
    left = cause("join", "network", 2.0, text="left.")
    right = cause("join", "network", 5.0, text="right.")
    (merged,) = _merged([left, right])
    assert merged.evidence == ("left.", "right.")
    assert merged.limited_s == 5.0


def test_stages_that_stand_still_together_are_one_cause_named_by_the_longest() -> None:
    found = [cause("map", "stall", 1.0, "sink"), cause("sink", "stall", 2.0, "map")]
    assert [one.stage for one in _merged(found)] == ["sink"]


def test_two_task_managers_that_stand_still_are_two() -> None:
    found = [
        *(cause("a", "stall", 4.0, "b"), cause("b", "stall", 3.0, "a")),
        *(cause("c", "stall", 2.0, "d"), cause("d", "stall", 1.0, "c")),
    ]
    assert [one.stage for one in _merged(found)] == ["a", "c"]


def test_another_cause_of_a_stage_beside_stays() -> None:
    found = [cause("a", "stall", 4.0, "b"), cause("b", "operator", 3.0)]
    assert [one.cause for one in _merged(found)] == ["stall", "operator"]
