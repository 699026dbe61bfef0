from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario.syntax import (
    LONG_MAX,
    MEMORY_UNITS,
    TIME_UNITS_NS,
    read_boolean,
    read_duration_us,
    read_memory,
)

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        ("0", 0),
        (32768, 32768),
        ("32768", 32768),
        ("1b", 1),
        ("1 bytes", 1),
        ("32kb", 32 * KIB),
        ("32k", 32 * KIB),
        ("32 kibibytes", 32 * KIB),
        ("4 MiB", 4 * MIB),
        ("4mib", 4 * MIB),
        ("1 KiB", KIB),
        ("3GiB", 3 * GIB),
        ("1 TiB", TIB),
        ("64 mb", 64 * MIB),
        ("64m", 64 * MIB),
        ("64mebibytes", 64 * MIB),
        ("1g", GIB),
        ("1gb", GIB),
        ("1 gibibytes", GIB),
        ("2t", 2 * TIB),
        ("2TB", 2 * TIB),
        ("2 TebiBytes", 2 * TIB),
        ("  7 KB  ", 7 * KIB),
        (str(LONG_MAX), LONG_MAX),
    ],
)
def test_memory(text: object, size: int) -> None:
    assert read_memory(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a size of memory"),
        ("kb", "not a size of memory"),
        ("-1kb", "not a size of memory"),
        (-1, "not a size of memory"),
        ("1.5kb", "not a size of memory"),
        (1.5, "not a size of memory"),
        ("1 000", "not a size of memory"),
        (True, "not a size of memory"),
        (None, "not a size of memory"),
        ("1kibi", "unknown unit 'kibi'"),
        ("1xb", "unknown unit 'xb'"),
        (LONG_MAX + 1, "more than the largest"),
        ("8388608t", "more than the largest"),
    ],
)
def test_what_is_no_size(text: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_memory(text)


@given(st.integers(0, 2**20), st.sampled_from(sorted(MEMORY_UNITS)), st.sampled_from(["", " "]))
def test_memory_is_number_times_unit(number: int, unit: str, blank: str) -> None:
    assert read_memory(f"{number}{blank}{unit.upper()}") == number * MEMORY_UNITS[unit]


@pytest.mark.parametrize(
    ("text", "us"),
    [
        (0, 0),
        (100, 100_000),
        ("100", 100_000),
        ("0ms", 0),
        ("100ms", 100_000),
        ("100 millis", 100_000),
        ("1 s", 1_000_000),
        ("1sec", 1_000_000),
        ("2 seconds", 2_000_000),
        ("5min", 300_000_000),
        ("5m", 300_000_000),
        ("1 h", 3_600_000_000),
        ("1d", 86_400_000_000),
        ("7µs", 7),
        ("7 micros", 7),
        ("2000ns", 2),
        (-1, -1),
        ("-1", -1),
        ("-1 ms", -1),
    ],
)
def test_duration(text: object, us: int) -> None:
    assert read_duration_us(text) == us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        ("ms", "not a duration"),
        (-2, "not a duration"),
        ("-1s", "not a duration"),
        ("1.5s", "not a duration"),
        (0.1, "not a duration"),
        (False, "not a duration"),
        ("1 us", "unknown unit 'us'"),
        ("1500ns", "whole number of microseconds"),
    ],
)
def test_what_is_no_duration(text: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_duration_us(text)


@given(st.integers(0, 10**6), st.sampled_from(sorted(TIME_UNITS_NS)))
def test_duration_is_number_times_unit(number: int, unit: str) -> None:
    nanoseconds = number * TIME_UNITS_NS[unit]
    if nanoseconds % 1000:
        with pytest.raises(ValueError, match="microseconds"):
            read_duration_us(f"{number}{unit}")
    else:
        assert read_duration_us(f"{number} {unit}") * 1000 == nanoseconds


@pytest.mark.parametrize("value", [True, "true", "TRUE", " True "])
def test_true(value: object) -> None:
    assert read_boolean(value) is True


@pytest.mark.parametrize("value", [False, "false", "False"])
def test_false(value: object) -> None:
    assert read_boolean(value) is False


@pytest.mark.parametrize("value", [0, 1, "yes", "on", "", None])
def test_what_is_no_truth_value(value: object) -> None:
    with pytest.raises(ValueError, match="true or false"):
        read_boolean(value)
