"""A topic of a run: what it adds to the summary, and what terminal and page show of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowcontrol.analysis.frames import Tables
from flowcontrol.report.figures import Chart
from flowcontrol.report.rundata import RunData
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario

Summary = Mapping[str, Any]
"""As in ``summary.json``."""


@dataclass(frozen=True)
class Finished:
    """A run to be shown on a page."""

    tables: Tables
    summary: Summary
    scenario: Scenario  # As it was run
    drawn: RunData  # The data of the charts


Texts = Callable[[Summary], Iterable[str]]


def _nothing(_: object) -> tuple[()]:
    return ()


def _no_markup(_: object) -> str:
    return ""


def _adds_nothing(_: Run, __: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Where a run has nothing of a topic, each of these returns nothing."""

    # Puts figures into the summary of a run that is over, perhaps tables into the run.
    add: Callable[[Run, dict[str, Any]], None] = _adds_nothing
    alarms: Texts = _nothing  # Sentences above all others
    lines: Texts = _nothing  # Of the terminal alone, above the sentences
    sentences: Texts = _nothing  # Of the terminal, and of the head of the page
    head: Callable[[Summary], str] = _no_markup  # Markup in the head of the page
    figures: Texts = _nothing  # Key figures of the page, as markup
    section: Callable[[Finished], str] = _no_markup  # Of the page, as markup
    charts: Callable[[Finished], Iterable[Chart]] = _nothing  # Below the section
    first_charts: Callable[[Finished], Iterable[Chart]] = _nothing  # Above those of every run
    below_stages: Callable[[Finished], str] = _no_markup  # Markup under the table of the stages


def sentences_of(key: str) -> Texts:
    """Return the sentences that a part of the summary holds; none of a run without the part."""
    return lambda summary: summary.get(key, {}).get("sentences", ())
