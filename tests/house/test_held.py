"""The table of what is checked is made of the tests' markers, and of nothing else."""

from __future__ import annotations

import pytest

from modules import load

held = load("scripts/held.py")


@pytest.fixture(scope="module")
def found():
    return held.collect()


def test_markers_name_what_there_is(found):
    known = held.mechanisms()
    for one in found:
        assert one.mechanism in known, one
        assert one.clock in held.CLOCKS, one
        assert one.against == one.against.strip(), one
        assert one.against, one
        assert "|" not in one.against, one


def test_every_marker_is_in_a_row(found):
    """None is dropped on the way, and no row is there without one."""
    rows = {(name, clock): against for name, _, clock, against in held.rows(found)}
    for one in found:
        assert one.against in rows[f"`{one.mechanism}`", held.CLOCKS[one.clock]]
    assert len(rows) == len({(one.mechanism, one.clock) for one in found})


def test_tests_that_are_marked_are_tests_that_run(found):
    assert len(found) > 20
    assert all(one.test.partition("::")[2].startswith("test_") for one in found)


SOURCE = """
import pytest
pytestmark = [pytest.mark.spark, pytest.mark.holds("credit", "live", "a")]

@pytest.mark.holds("pid_rate", "rules", "b")
@pytest.mark.parametrize("x", [1])
def test_one(x):
    pass

def test_two():
    pass

@pytest.mark.holds("pid_rate", "rules", "c")
def helper():
    pass
"""


def test_what_is_read_of_a_file(tmp_path):
    (tmp_path / "test_x.py").write_text(SOURCE)
    (tmp_path / "other.py").write_text(SOURCE)
    assert [one[:3] for one in held.collect(tmp_path)] == [
        ("pid_rate", "rules", "b"),
        ("credit", "live", "a"),
        ("credit", "live", "a"),
    ]
