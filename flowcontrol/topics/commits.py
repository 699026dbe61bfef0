"""Commits that take time, in the summary and on the page: how many, what they take, which files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from flowcontrol.analysis.frames import end_of
from flowcontrol.analysis.summary import rounded
from flowcontrol.report.markup import html_table, milliseconds, number, percent
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Finished, Topic, sentences_of

FULL: Final = 0.95
"""Share of the time from which on a committer does not keep up."""


def commit_summary(run: Run) -> dict[str, Any]:
    """Return what ``summary.json`` says of the commits of a run.

    Returns ``stages``, by sink: ``commits``, ``files`` of the whole run, ``files_per_h``,
    ``mean_ms`` of a commit, ``share`` of the time that a committer, or the thread of a subtask,
    was in it, ``is_shared``; and ``sentences``.
    """
    frame, length_s = run.tables["commits"].to_pandas(), end_of(run.tables)
    stages, sentences = dict[str, Any](), list[str]()
    for stage in run.job.scenario.stages:
        rows = frame[frame["stage"] == stage.name]
        if stage.commit is None or rows.empty or length_s <= 0:
            continue
        starts = rows["started_s"]
        inside_s = (starts + rows["duration_ms"] / 1000).clip(upper=length_s) - starts
        committers = 1 if stage.commit.shared else stage.parallelism
        files = int(rows["files"].sum())
        stages[stage.name] = found = {
            "commits": len(rows),
            "files": files,
            "files_per_h": files * 3600 / length_s,
            "mean_ms": float(rows["duration_ms"].mean()),
            "share": float(inside_s.clip(lower=0).sum()) / length_s / committers,
            "is_shared": stage.commit.shared,
        }
        sentences += _sentences(stage.name, found, has_files=stage.requests is None)
    return {"stages": stages, "sentences": sentences}


def _sentences(stage: str, found: Mapping[str, Any], *, has_files: bool) -> Iterator[str]:
    whose = "its committer's time" if found["is_shared"] else "the time of its threads"
    files = f"; {found['files_per_h']:,.0f} files an hour" if has_files else ""
    yield (
        f"{stage} committed {found['commits']:,} times, {found['mean_ms']:,.0f} ms each: "
        f"{percent(found['share'])} of {whose}{files}."
    )
    if found["share"] >= FULL:
        yield (
            f"The commits of {stage} take as long as the interval of checkpoints: rows are visible "
            "later and later; use a longer interval, or fewer files."
        )


_HEADS: Final = ("Sink", "Commits", "A commit takes", "Share of the time", "Files an hour")


def _section(run: Finished) -> str:
    """Return the table of the page; empty without such sinks."""
    found = run.summary.get("commits")
    if found is None or not found["stages"]:
        return ""
    rows = [
        list(
            map(
                escape,
                (
                    name,
                    number(own["commits"]),
                    milliseconds(own["mean_ms"]),
                    percent(own["share"]),
                    number(own["files_per_h"]),
                ),
            )
        )
        for name, own in found["stages"].items()
    ]
    return (
        '<section id="commits"><h2>Commits</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div><p class="how">A commit of a subtask '
        "holds its thread, which is busy and takes no record. A shared committer holds none, and "
        "commits one checkpoint behind the other. Rows are visible when their commit is over.</p>"
        "</section>\n"
    )


def _add(run: Run, summary: dict[str, Any]) -> None:
    if "commits" in run.tables:
        summary["commits"] = rounded(commit_summary(run))


COMMITS: Final = Topic(add=_add, sentences=sentences_of("commits"), section=_section)
