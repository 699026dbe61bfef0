"""The call behind ``flowcontrol step``: run systems, keep the rounds of a time, write a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.compare.run import read_systems
from flowcontrol.files import write_atomically
from flowcontrol.layout.job import Job
from flowcontrol.notices import quiet as quietly
from flowcontrol.report.result import Result, print_text
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario.given import Base, Given, Overrides, Texts, as_base, as_texts
from flowcontrol.stepview.film import Film, film
from flowcontrol.stepview.page import MARK, US, Moments, moments, read_window, step_page

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


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
