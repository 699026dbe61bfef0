"""The state of each of several jobs, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowcontrol.analysis.wording import seconds


def job_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each job of a run; none if its scenario has no ``jobs``.

    Parameters
    ----------
    summary : mapping
        As in summary.json: its ``jobs``, if there are any.
    """
    return [_sentence(job) for job in summary.get("jobs", ())]


def _sentence(job: Mapping[str, Any]) -> str:
    text = f"Job {job['name']} {job['state']}"
    if job["state"] == "stopped":
        text += f" at {seconds(job['stop_at_s'])} s"
    elif job["state"] == "failed":
        text += f", submitted at {seconds(job['start_at_s'])} s"
    return f"{text}: {job['message']}" if job["message"] else f"{text}."
