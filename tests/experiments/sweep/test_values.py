"""Values on the command line: lists, ranges, and what is neither."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.experiments.sweep.varied import (
    MAX_POINTS,
    plain_values,
    read_values,
    split_assignment,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3", (3,)),
        ("1,2,4", (1, 2, 4)),
        (" 1 , 2.5 ", (1, 2.5)),
        ("4kb,32kb", ("4kb", "32kb")),
        ("true,false", (True, False)),
        ("1e3", (1000,)),
        ("10:40:4", (10, 20, 30, 40)),
        ("40:10:4", (40, 30, 20, 10)),
        ("0:1:3", (0, 0.5, 1)),
        ("0:1:4", (0, 0.33333, 0.66667, 1)),
        ("0:1000000000:8", tuple(round(i * 1e9 / 7) for i in range(8))),
        ("0.1:0.3:3", (0.1, 0.2, 0.3)),
        ("-1:1:2", (-1, 1)),
        ("0,10:30:3,99", (0, 10, 20, 30, 99)),
        ("[1, 2],[3, 4]", ([1, 2], [3, 4])),
        ("{at_s: 0, rate: 5}", ({"at_s": 0, "rate": 5},)),
        ('"1:2:3"', (1, 1.5, 2)),
    ],
)
def test_values_that_are_read(text, values):
    assert read_values(text) == values
    assert [type(value) for value in read_values(text)] == [type(value) for value in values]


def test_the_range_of_the_readme_is_fifty_points_with_both_ends():
    values = read_values("1000:10000:50")
    assert (len(values), values[0], values[-1]) == (50, 1000, 10000)
    assert values[:3] == (1000, 1183.67, 1367.35)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1:9:1", ["'1:9:1'", "2 to 1,000,000 points", "not 1"]),
        ("1:9:0", ["not 0"]),
        (f"0:1:{MAX_POINTS + 1}", ["not 1000001"]),
        ("5:5:3", ["both ends are 5"]),
        ("1:1e400:3", ["'1:1e400:3': an end is beyond 1.8e+308"]),
        ("-1e999999999:1:3", ["an end is beyond"]),
        (f"1:1{'0' * 400}:3", ["an end is beyond"]),
        ("0:1e-400:3", ["both ends are 0"]),
        ("1:9", ["START:STOP:COUNT"]),
        ("1:9:2.5", ["START:STOP:COUNT"]),
        ("1:9:-2", ["START:STOP:COUNT"]),
        ("1:2:3:4", ["START:STOP:COUNT"]),
        ("1,1", ["1 is repeated"]),
        ("1,1.0", ["1.0 is repeated"]),
        ("1,0:2:3", ["1 is repeated"]),
        ("[1,2", ["not a list of values"]),
        (".nan", ["nan is not a value"]),
        (".inf,1", ["inf is not a value"]),
        (" ", ["at least one"]),
    ],
)
def test_values_that_are_refused(text, words):
    with pytest.raises(ValueError) as caught:
        read_values(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_a_range_has_as_many_points_as_it_says(count):
    assert len(read_values(f"0:7:{count}")) == count


@given(
    start=st.integers(-(10**6), 10**6), stop=st.integers(-(10**6), 10**6), count=st.integers(2, 200)
)
def test_points_of_a_range_are_even_and_reach_both_ends(start, stop, count):
    if start == stop:
        return
    values = read_values(f"{start}:{stop}:{count}")
    assert (values[0], values[-1], len(values)) == (start, stop, count)
    step = (stop - start) / (count - 1)
    assert np.diff(values) == pytest.approx(step, rel=2e-4, abs=1 if abs(step) > 1e4 else 0)
    if (stop - start) % (count - 1) == 0:
        assert all(isinstance(value, int) for value in values)


@given(
    start=st.decimals(-1000, 1000, places=6), stop=st.decimals(-1000, 1000, places=6)
)  # fmt: skip
def test_the_ends_of_a_range_are_not_rounded(start, stop):
    if start != stop:
        values = read_values(f"{start:f}:{stop:f}:5")
        assert (values[0], values[-1]) == (float(start), float(stop))


def test_numbers_of_numpy_become_plain():
    values = plain_values(np.array([1, 2]))
    assert values == (1, 2)
    assert {type(value) for value in values} == {int}
    assert plain_values(np.linspace(0, 1, 3)) == (0, 0.5, 1)


@pytest.mark.parametrize("values", [[], [object()], [{1, 2}], 5, {"a": 1}, [float("nan")]])
def test_what_no_file_can_state_is_refused(values):
    with pytest.raises(ValueError):
        plain_values(values)


def test_a_large_double_keeps_its_value():
    assert plain_values([1e300]) == (1e300,)
    assert isinstance(plain_values([2.0**53])[0], float)
    assert isinstance(plain_values([2.0**53 - 1])[0], int)


@pytest.mark.parametrize("text", ["", "key", "=1", "key=", " =1", "key= "])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(ValueError, match="KEY=VALUES"):
        split_assignment(text)


def test_an_assignment_is_cut_at_the_first_sign():
    assert split_assignment("a.b={c=1}") == ("a.b", "{c=1}")
