"""What the page and the terminal show of the messages of a trace: what flow control costs."""

from collections.abc import Mapping
from html import escape
from typing import Any

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import html_table
from flowcontrol.report.numbers import bytes_text, number, percent

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
