"""Memory of a run: full heaps, result partitions that spill, and readings of the pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from flowcontrol.analysis.causes import pool_readings
from flowcontrol.analysis.causes.pools import PoolReading
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import bytes_text, html_table, number, percent
from flowcontrol.report.stage_table import says_nothing_of_the_job
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Finished, Summary, Topic

MOST_ROWS: Final = 200
"""Rows of the table of the pools."""

_HEADS: Final = ("Stage", "Subtasks", "In", "Out", "Floating", "Exclusive", "What it says")


_PARTITION_HEADS = (
    "Edge", "Partition", "Spilled", "Read back", "Regions", "Buffers at most", "of",
    "Read buffers", "Producers finished", "Consumers could start", "First message",
    "Producers waited",
)  # fmt: skip


def partition_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the terminal for each such partition.

    ``summary``: as in ``summary.json``.

    Yields a line per edge, and one for each task that waited.
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

    ``summary``: as in ``summary.json``.
    """
    rows = [list(map(escape, _partition_cells(*found))) for found in _partitions(summary)]
    if not rows:
        return ""
    waits = [text for _, figures in _partitions(summary) for text in figures["waits"]]
    return (
        f'<h2 id="partitions">Result partitions</h2>{html_table(_PARTITION_HEADS, rows)}'
        + "".join(f"<p>{escape(text)}.</p>" for text in waits)
    )


def _partitions(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, edge in summary["edges"].items():
        if "partition" in edge:
            yield name, edge["partition"]


def _partition_cells(name: str, figures: Mapping[str, Any]) -> Iterator[str]:
    yield name
    yield str(figures["type"])
    yield bytes_text(figures["bytes_spilled"])
    yield bytes_text(figures["bytes_read"])
    for key in ("regions", "max_buffers", "pool_buffers", "max_read_buffers"):
        yield number(figures[key])
    for key in ("producers_finished_s", "consumers_may_start_s", "first_message_s"):
        yield "" if figures[key] is None else f"{seconds(figures[key])} s"
    yield f"{seconds(figures['producers_waited_s'])} s"


def pool_section(readings: Sequence[PoolReading]) -> str:
    """Return what the pools of each subtask say, folded, as markup; empty without any.

    Neighbours of which the same is said share a row, with their means.
    """
    rows = [
        _row(list(alike))
        for _, alike in groupby(readings, key=lambda one: (one.stage, one.reading, one.channels))
    ]
    if not rows:
        return ""
    shown = [list(map(escape, row)) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        shown.append([f"{len(rows) - MOST_ROWS:,} more rows are left out."])
    return (
        '<details id="pool-readings"><summary>What the pools say</summary>'
        f'<div class="scroll">{html_table(_HEADS, shown)}</div>'
        '<p class="how">Means over the run; 75 % or more is high. Of input and output: both low is '
        "fine; output high is blocked by what follows or by the network; input high alone limits, "
        "if what is before it is full; both high passes the pressure on. Floating buffers go where "
        "backlog is, exclusive ones belong to a channel: floating high alone is some channels, "
        "both is most, neither beside a full output before it is the network.</p></details>"
    )


def _row(alike: Sequence[PoolReading]) -> list[str]:
    first, last = alike[0], alike[-1]
    who = str(first.subtask) if first is last else f"{first.subtask} to {last.subtask}"
    usages = [
        sum(getattr(one, name) for one in alike) / len(alike)
        for name in ("into", "out", "floating", "exclusive")
    ]
    said = f"{first.reading}; {first.channels}" if first.channels else first.reading
    return [first.stage, who, *map(percent, usages), said]


def _add(run: Run, summary: dict[str, Any]) -> None:
    for edge, figures in run.partitions.items():
        summary["edges"][edge]["partition"] = figures
    if run.heap_exhausted_s is not None:
        summary["heap_exhausted_s"] = run.heap_exhausted_s


def _lines(summary: Summary) -> Iterator[str]:
    yield from partition_lines(summary)
    if "heap_exhausted_s" in summary:
        when = number(summary["heap_exhausted_s"])
        yield f"A heap was full at {when} s: a real system would fail here."


def _below_stages(run: Finished) -> str:
    """Return what the pools say, unless they change during the run, and the partitions."""
    pools = ""
    if run.scenario.scaling is None and not says_nothing_of_the_job(run.summary):
        pools = pool_section(pool_readings(run.tables, run.scenario))
    return pools + partition_section(run.summary)


MEMORY: Final = Topic(add=_add, lines=_lines, below_stages=_below_stages)
