"""The messages of a trace, and what flow control costs.

Neither the compiled kernel nor the live clock notes a message. What they did is done again up to
the end of the window, and looked at after each round.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from flowcontrol.analysis.wording import seconds
from flowcontrol.records import CONTROL_MESSAGES, MESSAGES
from flowcontrol.report.markup import bytes_text, html_table, number, percent
from flowcontrol.results.control_run import control_table
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Topic
from flowcontrol.trace.message_table import overhead, window_of

_HEADS = ("Message", "Count", "for each data buffer")


def message_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the messages of the trace; none without one.

    ``summary``: as in summary.json: its ``trace``, if the run has one.
    """
    trace = summary.get("trace")
    if trace is None:
        return []
    window = f"From {seconds(trace['from_s'])} s to {seconds(trace['to_s'])} s"
    if trace["messages"] == 0:
        return [f"{window}: no message went between task managers."]
    if trace["data_buffers"] == 0:
        return [f"{window}: {number(trace['messages'])} messages, none of them with data."]
    text = (
        f"{window}: {number(trace['messages'])} messages for {number(trace['data_buffers'])} data "
        f"buffers, {number(trace['messages_per_buffer'])} for each"
    )
    if trace["has_bytes"]:
        control = bytes_text(trace["header_bytes"] + trace["control_bytes"])
        text += f"; headers and control messages take {control}, "
        text += f"{percent(trace['overhead_share'])} of all bytes"
    return [f"{text}."]


def message_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty without a trace."""
    trace = summary.get("trace")
    if trace is None or not trace["messages"]:
        return ""
    buffers = trace["data_buffers"]
    rows = [
        [escape(name), number(count), number(count / buffers) if buffers else ""]
        for name, count in trace["by_name"].items()
    ]
    edges = "all edges" if trace["edges"] is None else ", ".join(trace["edges"])
    return (
        '<section id="messages"><h2>Messages</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        f'<p class="how">{escape(message_sentences(summary)[0])} Of {escape(edges)}; what stays '
        "within a task manager sends none. Each of them stands in the table <code>messages</code>."
        "</p></section>\n"
    )


def _add(run: Run, summary: dict[str, Any]) -> None:
    """Put the messages of a run that is finished into its tables, if its scenario has a trace.

    - ``run``: its tables get ``messages`` and ``control_messages``.
    - ``summary``: gets ``trace``: the window, and what flow control costs in it.
    """
    trace, window = run.job.scenario.trace, window_of(run.job)
    if trace is None or window is None or run.again is None or not run.is_finished:
        return
    found = run.again(window)
    run.tables[MESSAGES.name] = MESSAGES.of_objects(found)
    run.tables[CONTROL_MESSAGES.name] = control_table(run, window)
    times = {"from_s": window.start_us / 1e6, "to_s": window.end_us / 1e6}
    summary["trace"] = {**times, "edges": list(trace.edges) or None, **overhead(found)}


TRACE: Final = Topic(
    add=_add, sentences=message_sentences, below_stages=lambda run: message_section(run.summary)
)
