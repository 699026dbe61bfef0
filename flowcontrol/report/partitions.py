"""Result partitions that are not pipelined and bounded: lines, and a table of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import html_table
from flowcontrol.report.numbers import bytes_text, number

_HEADS = (
    "Edge", "Partition", "Spilled", "Read back", "Regions", "Buffers at most", "of",
    "Read buffers", "Producers finished", "Consumers could start", "First message",
    "Producers waited",
)  # fmt: skip


def partition_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the terminal for each such partition.

    Parameters
    ----------
    summary : mapping
        As in ``summary.json``.

    Yields
    ------
    str
        A line per edge, and one for each task that waited.
    """
    for name, figures in _partitions(summary):
        start = figures["consumers_may_start_s"]
        yield (
            f"{name} ({figures['type']}): {bytes_text(figures['bytes_spilled'])} spilled, "
            f"{bytes_text(figures['bytes_read'])} read back; at most "
            f"{number(figures['max_buffers'])} of {number(figures['pool_buffers'])} buffers "
            f"and {number(figures['max_read_buffers'])} read buffers; consumers could "
            f"{'not start' if start is None else f'start at {seconds(start)} s'}"
        )
        yield from (f"  {text}" for text in figures["waits"])


def partition_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty if there is no such partition.

    Parameters
    ----------
    summary : mapping
        As in ``summary.json``.
    """
    rows = [list(map(escape, _cells(*found))) for found in _partitions(summary)]
    if not rows:
        return ""
    waits = [text for _, figures in _partitions(summary) for text in figures["waits"]]
    return f'<h2 id="partitions">Result partitions</h2>{html_table(_HEADS, rows)}' + "".join(
        f"<p>{escape(text)}.</p>" for text in waits
    )


def _partitions(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, edge in summary["edges"].items():
        if "partition" in edge:
            yield name, edge["partition"]


def _cells(name: str, figures: Mapping[str, Any]) -> Iterator[str]:
    yield name
    yield str(figures["type"])
    yield bytes_text(figures["bytes_spilled"])
    yield bytes_text(figures["bytes_read"])
    for key in ("regions", "max_buffers", "pool_buffers", "max_read_buffers"):
        yield number(figures[key])
    for key in ("producers_finished_s", "consumers_may_start_s", "first_message_s"):
        yield "" if figures[key] is None else f"{seconds(figures[key])} s"
    yield f"{seconds(figures['producers_waited_s'])} s"
