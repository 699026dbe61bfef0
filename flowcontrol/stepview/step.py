"""The call behind ``flowcontrol step``: run systems, keep the rounds of a time, write a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.compare.run import read_systems
from flowcontrol.files import write_atomically
from flowcontrol.layout.job import Job
from flowcontrol.notices import quiet as quietly
from flowcontrol.report.markup import asset
from flowcontrol.report.result import Result, print_text
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario.given import Base, Given, Overrides, Texts, as_base, as_texts
from flowcontrol.stepview import shown as names
from flowcontrol.stepview.film import KINDS, Film, film
from flowcontrol.stepview.shown import changes, packed
from flowcontrol.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


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


_HEIGHT: Final = 760
"""Height of the page in a notebook, pixels."""


@dataclass(frozen=True, repr=False)
class StepResult(Result):
    """A page that steps through a run.

    Attributes
    ----------
    name : str
        Of the scenario.
    moments : Moments
        Its steps.
    films : tuple of Film
        The systems in it.
    page : Path
        The file.
    html : str
        What is in it.
    """

    name: str
    moments: Moments
    films: tuple[Film, ...]
    page: Path
    html: str
    path = None
    kind = "rounds of"

    @property
    def report(self) -> Path | None:
        """The page."""
        return self.page

    @cached_property
    def sentence(self) -> str:
        """What is in the page."""
        events = sum(len(one.events) for one in self.films)
        systems = ", ".join(one.system for one in self.films)
        return f"{self.moments.text}, under {systems}; {events:,} events to jump to."

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its figures: rounds, times, systems, events, size."""
        return {
            "scenario": self.name,
            "systems": [one.system for one in self.films],
            "rounds": self.moments.steps,
            "round_ms": self.moments.step_us / 1000,
            "from_s": self.moments.first_us / US,
            "to_s": self.moments.last_us / US,
            "events": sum(len(one.events) for one in self.films),
            "bytes": len(self.html.encode()),
            "sentence": self.sentence,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``events``: what begins, a row each: system, round, t_s, kind, name, text."""
        import pyarrow as pa

        columns = ("system", "round", "t_s", "kind", "name", "text")
        rows = [
            (one.system, number, (number + 1) * one.job.round_us / US, *found)
            for one in self.films
            for number, found in one.events
        ]
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        return {"events": pa.Table.from_pylist(found)}

    def show(self, console: Console | None = None) -> None:
        """Print what is in the page, and where it is."""
        print_text(f"{self.sentence}\npage: {self.page}", console)

    def iframe(self, height: int = _HEIGHT) -> str:
        """Return the page as an element of a notebook's output.

        Parameters
        ----------
        height : int, default 760
            Pixels.
        """
        style = f"width:100%;height:{height}px;border:0"
        title, page = escape(self.name), escape(self.html)
        return f'<iframe style="{style}" title="{title}" srcdoc="{page}"></iframe>'

    def _repr_html_(self) -> str:
        """Return the page as a notebook shows it."""
        return self.iframe()


def step(
    scenario: Given,
    from_s: float | str,
    to_s: float | str,
    *,
    systems: Texts | None = None,
    overrides: Overrides = (),
    out: str | Path | None = None,
    quiet: bool = False,
) -> StepResult:
    """Write a page that steps through a run round by round: every buffer, credit and message.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    from_s, to_s : float
        What to show, seconds of the run.
    systems : str or sequence of str, optional
        Presets to show side by side, as in :func:`flowcontrol.compare`; by default the scenario's
        own system.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, or ``KEY=VALUE`` each.
    out : str or Path, optional
        The file; by default ``out/<name>-steps.html``. One that this call wrote before is replaced.
    quiet : bool, default False
        Do not say what takes long.

    Returns
    -------
    StepResult
        Its ``page`` is the file; in a notebook it shows itself.

    Raises
    ------
    ScenarioError
        If the scenario, a system, a time or the file is refused; nothing is written.
    RunError
        If a run fails, or the page cannot be written.

    Notes
    -----
    The states are those of :func:`flowcontrol.rounds` on the virtual clock, which are equal to the
    live clock's in every round.
    """
    with quietly(quiet or systems is not None):  # what is said of the file is said once
        base = as_base(scenario, overrides)
    with quietly(quiet):
        jobs = _jobs(base, scenario, systems, overrides)
    first = next(iter(jobs.values()))
    window = read_window(from_s, to_s, first.scenario.duration_s, base.source)
    found = moments(list(jobs.values()), *window, base.source)
    path = Path(out) if out is not None else Path("out", f"{first.scenario.name}-steps.html")
    _check_place(path)
    with quietly(quiet):
        films = tuple(_film(name, job, found) for name, job in jobs.items())
    html = step_page(first.scenario.name, films, found)
    _write(path, html)
    return StepResult(first.scenario.name, found, films, path, html)


def _jobs(
    base: Base, scenario: Given, systems: Texts | None, overrides: Overrides
) -> dict[str, Job]:
    """Return the job under each system, by name."""
    if systems is None:
        own = base.mapping.get("system", "flink")
        found = job_for(base.scenario(), "virtual")
        part = found.scenario.system
        return {own if isinstance(own, str) else f"{part.transport}, {part.throttle}": found}
    changes = as_texts(overrides)
    if not any(text.startswith("round_ms=") for text in changes):
        changes.append("round_ms=null")  # as a comparison does: rounds that suit each system
    varied = varied_base(scenario, changes)
    return {
        name: job_for(varied.scenario([(("system",), name)]), "virtual")
        for name in read_systems(systems)
    }


def _film(name: str, job: Job, found: Moments) -> Film:
    from flowcontrol.results.running import step as run

    first, last = found.rounds(job)
    before = max(0, first - 1)
    return film(name, job, islice(run(job, first=before), last - before + 1), first)


def _check_place(path: Path) -> None:
    """Refuse to replace what is not a page of steps."""
    try:
        if path.exists() and MARK not in path.read_text("utf-8", errors="replace")[:2000]:
            text = f"{path} exists and is not a page of steps: name another file"
            raise ScenarioError([Problem("--out", text)], "command")
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror}: name another file"
        raise ScenarioError([Problem("--out", text)], "command") from error


def _write(path: Path, html: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, html)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from error
