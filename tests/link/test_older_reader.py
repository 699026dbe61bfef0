"""Spark 4.0 and 4.1 do not say where a batch begins: the reader finds out, or refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flowcontrol.errors import LinkError, RunError
from flowcontrol.spark.reader import Offset, OlderReader
from flowcontrol.spark.versions import (
    checkpoint_file_manager,
    has_read_limits,
    parse_version,
    require_spark,
)


class Counting:
    """A reader whose batches are of ten rows; ``most`` rows are there."""

    def __init__(self, most: int) -> None:
        self.most, self.first = most, 0
        self.asked: list[tuple[int, int]] = []

    def initialOffset(self) -> Offset:
        return {"at": self.first}

    def next_offset(self, start: Offset) -> Offset:
        return {"at": min(self.most, start["at"] + 10)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Any]:
        self.asked.append((start["at"], end["at"]))
        return ["all"]

    def read(self, partition: Any) -> Iterator[Any]:
        yield partition


def at(number: int) -> Offset:
    """Return an offset as it comes back from Spark: another object."""
    return {"at": number}


def test_a_new_checkpoint_begins_where_the_reader_says_and_goes_on_batch_by_batch() -> None:
    counting = Counting(25)
    reader = OlderReader(counting)
    assert reader.latestOffset() == at(10)  # Spark asks for the end first
    counting.first = 99  # and for the beginning once
    assert reader.initialOffset() == at(0)
    assert reader.partitions(at(0), at(10)) == ["all"]
    assert reader.latestOffset() == at(20)
    reader.partitions(at(10), at(20))
    assert reader.latestOffset() == at(25)
    reader.partitions(at(20), at(25))
    assert reader.latestOffset() == reader.latestOffset() == at(25)  # there is nothing new
    assert list(reader.read("all")) == ["all"]  # type: ignore[arg-type]
    assert counting.asked == [(0, 10), (10, 20), (20, 25)]


def test_after_a_restart_the_last_offset_is_the_start() -> None:
    counting = Counting(100)
    reader = OlderReader(counting)
    assert reader.partitions(at(40), at(40)) == []  # how Spark says it
    assert reader.latestOffset() == at(50)
    assert counting.asked == []


@pytest.mark.parametrize("start", [0, 30])
def test_a_batch_that_was_not_done_runs_again_first(start: int) -> None:
    counting = Counting(100)
    reader = OlderReader(counting)
    reader.partitions(at(40), at(40))
    assert reader.partitions(at(start), at(40)) == ["all"]
    assert reader.latestOffset() == at(50)
    assert counting.asked == [(start, 40)]


def test_a_wrapped_source_on_a_used_checkpoint_is_refused_and_nothing_is_read() -> None:
    """Spark says nothing before it asks where the query ends, so the reader begins too early."""
    counting = Counting(100)
    reader = OlderReader(counting)
    assert reader.latestOffset() == at(10)
    with pytest.raises(
        LinkError, match=r"Nothing was read\. .*Wrapper\.enabled .* needs Spark 4\.2"
    ):
        reader.partitions(at(5), at(10))
    assert counting.asked == []


@pytest.mark.parametrize(
    ("text", "version", "limits", "package"),
    [
        ("4.0.1", (4, 0), False, "streaming"),
        ("4.1.4", (4, 1), False, "checkpointing"),
        ("4.2.0.dev0", (4, 2), True, "checkpointing"),
    ],
)
def test_what_a_version_has(
    text: str, version: tuple[int, int], limits: bool, package: str
) -> None:
    assert parse_version(text) == version
    assert has_read_limits(version) is limits
    assert checkpoint_file_manager(version).split(".")[-2] == package


def test_an_older_spark_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(RunError, match=r"needs Spark 4\.0 or newer, and pyspark 3\.5 is"):
        require_spark()
    with pytest.raises(ValueError, match="not a version of Spark"):
        parse_version("next")
