"""Why a run was slow: causes, logs that grow, hot subtasks, and what became of each job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import percent
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Texts, Topic

TITLES: Final[Mapping[str, str]] = {
    "operator": "slow operator",
    "key_skew": "hot keys",
    "channel_skew": "uneven channels",
    "stall": "stalls",
    "cpu": "too few processors",
    "network": "network",
    "buffers": "too few buffers",
    "disk": "slow disk",
    "checkpoint": "checkpoints",
    "external": "waiting for something outside",
    "throttle": "throttle",
    "source": "slow source",
    "downstream": "held up by what follows",
    "none": "nothing",
}
"""What a cause is called."""


def cause_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each cause of a run: what, where, how sure, and what helps.

    Nothing where nothing limits: the sentence says so.
    """
    for label, cause in _labelled(summary):
        yield f"{label}: {_headline(cause)}; {cause['advice']}."


def cause_section(summary: Mapping[str, Any]) -> str:
    """Return the causes of a run with their evidence, as markup; empty where nothing limits."""
    items = []
    for label, cause in _labelled(summary):
        evidence = "".join(f"<li>{escape(text)}</li>" for text in cause["evidence"])
        items.append(
            f'<li data-cause="{escape(cause["cause"])}"><details><summary>'
            f"{label}: <strong>{escape(_headline(cause))}</strong>; "
            f"{escape(cause['advice'])}.</summary>"
            f"<ul>{evidence}</ul><p>{percent(cause['confidence'])} sure: "
            f"{escape(cause['reason'])}.</p></details></li>"
        )
    return f'<ul class="causes">{"".join(items)}</ul>' if items else ""


def _labelled(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the causes to show, with a number if there are several."""
    causes = [cause for cause in summary.get("causes", ()) if cause["cause"] != "none"]
    for index, cause in enumerate(causes, 1):
        yield f"Cause {index} of {len(causes)}" if len(causes) > 1 else "Cause", cause


def _headline(cause: Mapping[str, Any]) -> str:
    """Return what it is, where, and how sure."""
    where = cause["stage"]
    if cause["subtask"] is not None:
        where = f"subtask {cause['subtask']} of {where}"
    sure = percent(cause["confidence"])
    return f"{TITLES[cause['cause']]}, {where} ({sure} sure)"


def job_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each job of a run; none if its scenario has no ``jobs``.

    ``summary``: as in summary.json: its ``jobs``, if there are any.
    """
    return [_job_sentence(job) for job in summary.get("jobs", ())]


def _job_sentence(job: Mapping[str, Any]) -> str:
    text = f"Job {job['name']} {job['state']}"
    if job["state"] == "stopped":
        text += f" at {seconds(job['stop_at_s'])} s"
    elif job["state"] == "failed":
        text += f", submitted at {seconds(job['start_at_s'])} s"
    return f"{text}: {job['message']}" if job["message"] else f"{text}."


def _said(key: str) -> Texts:
    """Return the sentences of a list in the summary, one of each of its items."""
    return lambda summary: [str(one["sentence"]) for one in summary.get(key, ())]


CAUSES: Final = Topic(lines=cause_lines, head=cause_section)
LAGS: Final = Topic(sentences=_said("lags"))
"""Whether each source that reads a log kept up, or caught up."""

HOT: Final = Topic(lines=_said("hot"))
"""The hot subtask of each stage that has one, and how busy it is."""


def _add_jobs(run: Run, summary: dict[str, Any]) -> None:
    if run.jobs:
        summary["jobs"] = list(run.jobs)


JOBS: Final = Topic(add=_add_jobs, sentences=job_sentences)
"""What became of each job of a run."""
