from __future__ import annotations

from typing import Any

from flowcontrol.topics.memory import partition_lines, partition_section

FIGURES: dict[str, Any] = {
    "type": "sort_merge",
    "bytes_spilled": 2 * 1024 * 1024,
    "bytes_read": 1024,
    "regions": 3,
    "max_buffers": 7,
    "pool_buffers": 8,
    "max_read_buffers": 2,
    "producers_finished_s": 2.07,
    "consumers_may_start_s": 2.08,
    "first_message_s": 2.1,
    "producers_waited_s": 0.64,
    "waits": ["<sink> waited 2.08 s for all of its blocking inputs to finish"],
}


def test_nothing_is_said_of_what_is_pipelined_and_bounded() -> None:
    summary = {"edges": {"a->b": {"channels": 1}}}
    assert list(partition_lines(summary)) == []
    assert partition_section(summary) == ""


def test_an_edge_is_a_line_and_its_waits_follow() -> None:
    summary = {"edges": {"a->b": {"channels": 1}, "b->c": {"partition": FIGURES}}}
    assert list(partition_lines(summary)) == [
        "b->c (sort_merge): 2 MiB spilled, 1 KiB read back; at most 7 of 8 buffers and 2 read "
        "buffers; consumers could start at 2.1 s",
        "  <sink> waited 2.08 s for all of its blocking inputs to finish",
    ]


def test_a_consumer_that_never_started() -> None:
    never = FIGURES | {"consumers_may_start_s": None, "first_message_s": None, "waits": []}
    [line] = partition_lines({"edges": {"b->c": {"partition": never}}})
    assert line.endswith("consumers could not start")


def test_the_page_has_a_row_an_edge() -> None:
    page = partition_section({"edges": {"b->c": {"partition": FIGURES}}})
    assert page.count("<tr>") == 2
    for text in ("b-&gt;c", "sort_merge", "2 MiB", "2.08 s", "&lt;sink&gt; waited"):
        assert text in page
    assert "<sink>" not in page
