"""One self-contained page: its time range, its films, and the script that draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any, Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.report.markup import asset
from flowcontrol.stepview import shown as names
from flowcontrol.stepview.film import KINDS, Film
from flowcontrol.stepview.shown import changes, packed
from flowcontrol.version import __version__

# --- From when to when a page shows a run: read, checked, and turned into rounds


MOST_STEPS: Final = 10_000
"""Rounds that a page shows at most."""

MOST_CHANNELS: Final = 256
"""Channels of a system that a page draws at most."""

US: Final = 1_000_000


@dataclass(frozen=True)
class Moments:
    """The steps of a page: all systems at the same moments.

    A step is as long as the shortest round among the systems. One whose rounds are longer is shown
    after the last of them that has ended.
    """

    step_us: int  # From one step to the next, microseconds of emulated time
    first_us: int  # Moment of the first step
    steps: int  # How many there are

    @property
    def last_us(self) -> int:
        """Moment of the last step, microseconds."""
        return self.first_us + (self.steps - 1) * self.step_us

    @property
    def text(self) -> str:
        """How many rounds, how long, and from when to when."""
        rounds = f"{self.steps:,} {'round' if self.steps == 1 else 'rounds'}"
        times = f"{self.first_us / US:g} to {self.last_us / US:g} s"
        return f"{rounds} of {self.step_us / 1000:g} ms, {times}"

    def rounds(self, job: Job) -> tuple[int, int]:
        """Return the first and the last round of a job that are shown."""
        return self.first_us // job.round_us - 1, self.last_us // job.round_us - 1


def read_window(
    from_s: float | str, to_s: float | str, duration_s: float, source: str
) -> tuple[int, int]:
    """Return from when to when to show a run, microseconds.

    Raises ScenarioError if one is not a number or outside of the run, or the end is not after the
    beginning.
    """
    problems: list[Problem] = []
    limits = f"needs a number of seconds, at least 0 and at most the run's {duration_s:g}"
    start = _second("--from", from_s, duration_s, limits, problems)
    end = _second("--to", to_s, duration_s, limits, problems)
    if not problems and end <= start:
        text = f"{end:g} is not after --from {start:g}: choose a later time, up to {duration_s:g}"
        problems.append(Problem("--to", text))
    if problems:
        raise ScenarioError(problems, source)
    return round(start * US), round(end * US)


def _second(
    place: str, value: float | str, most: float, limits: str, problems: list[Problem]
) -> float:
    try:
        number = float(value)
    except ValueError:
        problems.append(Problem(place, f"{value!r} is not a number: {limits}"))
        return 0.0
    if not 0 <= number <= most:
        shown = repr(value) if isinstance(value, str) else f"{value:g}"
        problems.append(Problem(place, f"{shown} is out of range: {limits}"))
        return 0.0
    return number


def moments(jobs: Sequence[Job], start_us: int, end_us: int, source: str) -> Moments:
    """Return the steps between two moments, at least one.

    - ``jobs``: the systems, each with the rounds of its run.
    - ``start_us``, ``end_us``: from when to when, microseconds.

    Raises ScenarioError if there are more rounds or channels than a page shows.
    """
    step_us, longest = min(job.round_us for job in jobs), max(job.round_us for job in jobs)
    last = end_us // step_us * step_us
    first = min(last, -(-max(start_us, longest) // step_us) * step_us)
    if first < longest:
        text = f"{end_us / US:g} is before the end of the first round, {longest / US:g} s"
        raise ScenarioError([Problem("--to", f"{text}: name a later time")], source)
    found = Moments(step_us, first, (last - first) // step_us + 1)
    problems = []
    if found.steps > MOST_STEPS:
        most_s = MOST_STEPS * step_us / US
        text = f"{found.steps:,} rounds of {step_us / 1000:g} ms from --from on are more than the"
        text += f" {MOST_STEPS:,} of a page: show at most {most_s:g} s"
        problems.append(Problem("--to", text))
    channels = max(sum(len(link.channels) for link in job.links) for job in jobs)
    if channels > MOST_CHANNELS:
        text = f"the job has {channels:,} channels, more than the {MOST_CHANNELS} of a page: lower"
        problems.append(Problem("edges", f"{text} parallelism with --set"))
    if problems:
        raise ScenarioError(problems, source)
    return found


# --- One self-contained page: the films, packed, and the script that draws them


MARK: Final = '<meta name="generator" content="flowcontrol step'
"""By this a page of steps is known."""

_SCRIPTS: Final = ("film.js", "cells.js", "panel.js", "wires.js", "details.js", "player.js")


def step_page(title: str, films: Sequence[Film], moments: Moments) -> str:
    """Return the page.

    ``films``: the systems, in the order in which they stand on the page.
    """
    return Template(asset(names.PACKAGE, "page.html")).substitute(
        title=escape(title),
        mark=f'{MARK} {escape(__version__)}">',
        about=escape(
            f"{moments.text} of emulated time, under {', '.join(one.system for one in films)}."
        ),
        css=asset(names.PACKAGE, "page.css") + _colours(),
        legend=_legend(),
        film=packed(_data(films, moments)),
        script="\n".join(asset(names.PACKAGE, name) for name in _SCRIPTS),
    )


def _data(films: Sequence[Film], moments: Moments) -> dict[str, Any]:
    return {
        "step_us": moments.step_us,
        "first_us": moments.first_us,
        "steps": moments.steps,
        "lists": names.LISTS,
        "kinds": names.table("kinds.yaml"),
        "rules": names.table("rules.yaml"),
        "events": KINDS,
        "systems": [
            {
                **one.still(),
                "film": changes(one.states),
                "events": [[number, *found] for number, found in one.events],
            }
            for one in films
        ],
    }


def _colours() -> str:
    """Return the colour of each kind of cell, as a style sheet."""
    rows = names.table("kinds.yaml").items()
    return "".join(
        f'\n.cell[data-buffer="{kind}"], .token[data-buffer="{kind}"] {{ --own: {row["colour"]}; }}'
        for kind, row in rows
    )


def _legend() -> str:
    """Return the list of all kinds of cells, as markup."""
    return "".join(
        f'<li><span class="cell {row["pattern"]}" data-buffer="{kind}" style="--level:60%">'
        f"{escape(row['letter'])}</span><span><b>{escape(kind.replace('_', ' '))}</b>: "
        f"{escape(row['meaning'])}</span></li>"
        for kind, row in names.table("kinds.yaml").items()
    )
