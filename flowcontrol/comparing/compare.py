"""Compare systems: check them, run those that can be run, write tables and page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.comparing.columns import RATES, RESULTS, rate_rows, result_row
from flowcontrol.comparing.limits import job_limits
from flowcontrol.comparing.outcome import Outcome
from flowcontrol.comparing.page import write_page
from flowcontrol.comparing.plan import Clock, Comparison, plan_comparison
from flowcontrol.comparing.run import Runner, check_one, refusal, run_one
from flowcontrol.comparing.work import Work, read_outcomes, stop_file, write_outcome
from flowcontrol.emulation import Job
from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.folders import Kind, OwnedFolder, open_owned
from flowcontrol.scenario import Scenario
from flowcontrol.sweeping.spread import Spread, reason_of, spread_over
from flowcontrol.sweeping.sweep import Progress, ShowProgress
from flowcontrol.virtual.needs import parts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowcontrol.comparing.limits import LimitPhase

POLL_S: Final = 0.2
"""Seconds between two looks at what the workers have left."""

PATIENCE_S: Final = 30.0
"""Seconds that the systems under way are given to end when a comparison is stopped."""

KIND: Final = Kind(
    "comparison", "comparison.json", "comparison", frozenset({"scenario", "clock", "systems"})
)

LiveRunner = Callable[[Path], Runner]
"""Given the folder of one run, returns what runs a scenario on the live clock there."""


@dataclass(frozen=True)
class CompareResult:
    """What a comparison left.

    Attributes
    ----------
    path : Path
        Its folder: Delta tables ``results`` and ``rates``, and ``report.html``.
    comparison : Comparison
        What was compared.
    outcomes : tuple of Outcome
        Of each system, in the order in which they were named.
    limits : list of LimitPhase, or None
        What the job can carry.
    """

    path: Path
    comparison: Comparison
    outcomes: tuple[Outcome, ...]
    limits: list[LimitPhase] | None

    @property
    def page(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def failed(self) -> list[Outcome]:
        """Return the systems that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]


def compare(
    scenario: Scenario | str | Path,
    *,
    systems: Sequence[str] | None = None,
    clock: Clock = "virtual",
    out: Path | str | None = None,
    overrides: Sequence[str] = (),
    overwrite: bool = False,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    processes: int | None = None,
    progress: ShowProgress | None = None,
    warn: Callable[[str], None] | None = None,
    runner: Runner | None = None,
    live: LiveRunner | None = None,
) -> CompareResult:
    """Run several systems on one scenario.

    Parameters
    ----------
    scenario : Scenario, or str or Path
        A scenario, or the file of one. Only its ``system`` is replaced.
    systems : sequence of str, optional
        Names of presets; by default all of them.
    clock : {"virtual", "live"}, default "virtual"
        On the virtual clock the systems are spread over Spark, on the live clock they run one
        after the other: each of them is a set of Spark's queries.
    out : Path or str, optional
        Folder of the results; by default ``out/<scenario name>-compare``. What an unfinished
        comparison of the same kind has in it is not run again.
    overrides : sequence of str, default ()
        Changes of the scenario for all systems, ``KEY=VALUE`` each.
    overwrite : bool, default False
        Replace the comparison that stands in ``out``.
    spark : SparkSession or callable, optional
        A session, or what returns one; by default the running one, else a new one.
    processes : int, optional
        Without Spark: so many processes of this machine. Virtual clock only.
    progress : callable, optional
        Called with the number of systems and of those done; returns a context manager.
    warn : callable, optional
        Called with each remark, such as that the virtual clock is being compiled.
    runner : callable, optional
        Runs one scenario on the virtual clock; by default :func:`flowcontrol.virtual.simulate`.
    live : callable, optional
        Runs one on the live clock; needed there.

    Returns
    -------
    CompareResult
        What was written. A system that the clock refuses with this scenario is in it with the
        reason, and so is one that failed.

    Raises
    ------
    ScenarioError
        If the scenario, the command or the folder is refused, or every system. Nothing was
        written.
    RunError
        If the workers died. What was done is kept, and the same call goes on.

    Examples
    --------
    >>> result = compare("conf/experiment.yaml", systems=["flink", "storm-1"])  # doctest: +SKIP
    >>> result.outcomes[0].figures.of_limit  # doctest: +SKIP
    1.0
    """
    comparison = plan_comparison(scenario, systems=systems, clock=clock, overrides=overrides)
    if processes is not None and processes < 1:
        raise ScenarioError([Problem("--processes", f"{processes}: state at least 1")], "command")
    jobs, refused = _check(comparison)
    root = Path("out") / f"{comparison.name}-compare" if out is None else out
    folder = _open(root, comparison, named=out is not None, overwrite=overwrite)
    try:
        notes = folder.root / ".notes"
        notes.mkdir(exist_ok=True)
        stop_file(notes).unlink(missing_ok=True)
        missing = [s for s in jobs if s not in _done(notes)]
        folder.mark(finished=False)
        with _shown(progress, len(jobs), len(jobs) - len(missing)) as bar:
            if clock == "live":
                _run_live(comparison, missing, folder.root, live, bar)
            elif missing:
                parts = reduce(or_, (parts_of(jobs[system]) for system in missing))
                work = Work(comparison.base, notes, tuple(missing), runner, parts)
                spread = spread_over(spark, processes)
                if runner is None:
                    spread.warm_up(warn or _ignore, parts)
                _follow(spread, work, bar, len(jobs))
        found = {**refused, **read_outcomes(notes)}
        outcomes = tuple(found[system] for system in comparison.systems)
        limits = job_limits(next(iter(jobs.values())))
        result = CompareResult(folder.root, comparison, outcomes, limits)
        _write(result)
        if not result.failed():
            shutil.rmtree(notes)
            folder.mark(finished=True)
        return result
    finally:
        folder.close()


def _check(comparison: Comparison) -> tuple[dict[str, Job], dict[str, Outcome]]:
    """Return the jobs of the systems that can be run, and why the others cannot."""
    jobs: dict[str, Job] = {}
    refused: dict[str, Outcome] = {}
    problems: list[Problem] = []
    for system in comparison.systems:
        try:
            jobs[system] = check_one(comparison.base, system, comparison.clock)
        except ScenarioError as error:
            refused[system] = Outcome(system, "refused", refusal(error))
            problems += [Problem(f"{system}: {p.place}", p.message) for p in error.problems]
    if not jobs:
        raise ScenarioError(problems, comparison.base.source)
    return jobs, refused


def _open(root: Path | str, comparison: Comparison, *, named: bool, overwrite: bool) -> OwnedFolder:
    described = {
        "comparison": comparison.identity,
        "scenario": comparison.name,
        "clock": comparison.clock,
        "systems": list(comparison.systems),
    }

    def why_kept(found: Mapping[str, Any]) -> str | None:
        if overwrite or (found["finished"] and not named):
            return None
        state = "a finished" if found["finished"] else "an unfinished"
        return (
            f"{root} holds {state} comparison ({found['scenario']}, {found['clock']} clock, "
            f"{len(found['systems'])} systems): name another folder, or replace it with --overwrite"
        )

    return open_owned(
        root,
        KIND,
        described,
        is_continued=lambda found: (
            found["comparison"] == comparison.identity and not found["finished"] and not overwrite
        ),
        why_kept=why_kept,
    )


def _done(notes: Path) -> set[str]:
    """Return the systems that need not be run again."""
    return {name for name, outcome in read_outcomes(notes).items() if outcome.state == "ran"}


def _ignore(_: str) -> None:
    """Do nothing."""


def _shown(
    progress: ShowProgress | None, total: int, done: int
) -> AbstractContextManager[Progress]:
    return progress(total, done) if progress else nullcontext(_Silent())


def _run_live(
    comparison: Comparison,
    systems: Sequence[str],
    root: Path,
    live: LiveRunner | None,
    bar: Progress,
) -> None:
    """Run systems one after the other on the live clock."""
    if live is None:
        raise ValueError("the live clock needs what runs a scenario on it (live=...)")
    notes = root / ".notes"
    for system in systems:
        runner = live(root / "runs" / system)
        write_outcome(notes, run_one(comparison.base, system, "live", runner))
        bar.update(len(read_outcomes(notes)))


def _follow(spread: Spread, work: Work, bar: Progress, total: int) -> None:
    """Start the work and wait until all is through, or somebody stops it."""
    futures = spread.start(work)
    try:
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, POLL_S, FIRST_EXCEPTION)
            done = len(read_outcomes(work.notes))
            bar.update(min(done, total))
            for future in finished:
                error = future.exception()
                if error is not None:
                    raise RunError(
                        f"the workers failed, {reason_of(error)}; {done} of {total} systems are "
                        "done, and the same command goes on"
                    ) from error
    except BaseException:
        stop_file(work.notes).touch()
        spread.stop()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not all(future.done() for future in futures):
            time.sleep(POLL_S)
        spread.abandon()
        raise
    missing = set(work.chunks) - set(read_outcomes(work.notes))
    if missing:
        raise RunError(
            f"{', '.join(sorted(missing))}: run, but their results are not in {work.notes}: the "
            "workers must see the same folder as the driver; name one that all machines share"
        )


def _write(result: CompareResult) -> None:
    """Write tables and page."""
    import pyarrow as pa
    from deltalake import write_deltalake

    rates = [row for outcome in result.outcomes for row in rate_rows(outcome)]
    for table, rows in ((RESULTS, [result_row(o) for o in result.outcomes]), (RATES, rates)):
        content = pa.Table.from_pylist(rows, schema=table.arrow_schema())
        write_deltalake(str(result.path / table.name), content, mode="overwrite")
    write_page(result.page, result.comparison, result.outcomes, result.limits)


class _Silent:
    """Shows nothing."""

    def update(self, done: int, failed: int = 0) -> None:
        """Take notice of nothing."""
