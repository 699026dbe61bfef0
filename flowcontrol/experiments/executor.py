"""Where chunks run: in Spark's Python workers, in processes of this machine, or right here.

Each way starts the chunks in order, one per worker at a time, and reports when all are done. Chunks
write their results to files.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_EXCEPTION,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from flowcontrol.analysis import find_bottleneck
from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.kernel.compiled import is_compiled, is_kept
from flowcontrol.notices import COMPILING_USUALLY, PATIENCE_S, announce_step, is_quiet, warn
from flowcontrol.report.progress import SweepProgress
from flowcontrol.scenario import Scenario
from flowcontrol.spark.session import get_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from flowcontrol.experiments.base import Paths
    from flowcontrol.layout.job import Job
    from flowcontrol.results.run import Run


_ERROR_LINE: Final = re.compile(r"[A-Za-z][\w.]*(Error|Exception|Exit): ")

_LOCAL: Final = re.compile(r"local($|\[)")
"""Masters that run their tasks in this process; ``local-cluster`` does not."""

_PER_CORE: Final = 2
"""Workers counted for a core when Spark does not say how many it has."""


Simulate = Callable[[Scenario], "Run"]
"""Runs a scenario."""


def virtual_clock() -> Simulate:
    """Return the function that runs a scenario on the virtual clock; loads numba."""
    from flowcontrol.virtual import simulate

    return simulate


def judging_clock(fits: Callable[[Job], bool] = lambda _: True) -> Simulate:
    """Return the function that runs a scenario on the virtual clock to judge its job.

    Where the length of the rounds that a scenario states limits the run, and not its job, it runs
    it again with rounds of the clock's choice.

    ``fits``: given the job with those rounds, tells whether it may be run; else the function raises
    RunError.
    """
    from flowcontrol.virtual import simulate

    def run(scenario: Scenario) -> Run:
        found = simulate(scenario)
        if scenario.round_ms is None or not find_bottleneck(found.tables, scenario).is_of_round:
            return found
        job = job_for(scenario.model_copy(update={"round_ms": None}), scenario.name)
        stated, chosen = f"{scenario.round_ms:g} ms", f"{job.round_us / 1000:g} ms"
        if not fits(job):
            raise RunError(f"rounds of {stated} limit it, and with {chosen} it would be too long")
        _say_again(stated, chosen)
        return simulate(job.scenario)

    return run


@cache
def _say_again(stated: str, chosen: str) -> None:
    """Say once that rounds of the clock's choice take the place of the stated ones."""
    warn(
        f"round_ms: rounds of {stated} limit a run, and not its job. Such runs are made again with "
        f"{chosen}, which the clock chooses; leave round_ms out to have that at once."
    )


@dataclass(frozen=True)
class Work(ABC):
    """The work of an experiment, cut into chunks, for every worker."""

    paths: Paths  # Where files go; workers and driver see the same folder
    run_id: str  # Of this start of the experiment
    chunks: Sequence[Any]  # In the order of their start
    simulate: Simulate | None  # Runs a scenario; None: the virtual clock
    parts: int  # Parts of the kernel that all chunks together need

    @property
    def stop_file(self) -> Path:
        """Created to stop the experiment: workers start no further run once it exists."""
        return self.paths.stop_file(self.run_id)

    def run(self, number: int) -> int:
        """Run a chunk in this process; return the number of runs done."""
        if self.stop_file.exists():
            return 0
        if self.simulate is None:
            warm_up(self.parts)
        return self.run_chunk(number)

    @abstractmethod
    def run_chunk(self, number: int) -> int:
        """Run a chunk on a clock that is compiled; return the number of runs done."""


class ProcessExecutor:
    """Chunks in processes of this machine.

    - ``count``: number of processes, at least 1; 1 runs the chunks in a thread of this process.
    - ``is_kept``: whether the processes wait for more work until they are closed; else they end
      with it.

    Raises ValueError if ``count`` is below 1.
    """

    def __init__(self, count: int, *, is_kept: bool = False) -> None:
        if count < 1:
            raise ValueError(f"{count} processes: state at least 1")
        self.workers = count
        self._is_kept = is_kept
        self._pool: ProcessPoolExecutor | ThreadPoolExecutor | None = None

    def warm_up(self, parts: int) -> None:
        """Compile once, before each process would."""
        warm_up(parts)

    def start(self, work: Work) -> list[Future[Any]]:
        """Start all chunks of some work; the futures are done when the chunks are."""
        pool = self._pool if self._is_kept and self._pool is not None else self._make_pool()
        self._pool = pool
        futures = [pool.submit(work.run, i) for i in range(len(work.chunks))]
        if not self._is_kept:
            pool.shutdown(wait=False)
        return futures

    def stop(self) -> None:
        """Start no more chunks."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def abandon(self) -> None:
        """Do nothing: the processes end with this one."""

    def close(self) -> None:
        """Let the processes end."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def _make_pool(self) -> ProcessPoolExecutor | ThreadPoolExecutor:
        if self.workers == 1:
            return ThreadPoolExecutor(1, thread_name_prefix="sweep")
        import multiprocessing

        # A fork would copy locks that pyarrow's threads hold.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=_follow_parent)


def lacks_kernel(parts: int) -> bool:
    """Tell whether the first run on this machine has to compile."""
    return is_compiled() and not is_kept(parts)


def warm_up(parts: int) -> None:
    """Compile or load the kernel that has these parts; do nothing without a compiler."""
    if is_compiled():
        from flowcontrol.kernel.loop import prepare

        prepare(parts)


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends."""
    import multiprocessing
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class SparkExecutor:
    """Chunks as tasks of one Spark job, through ``mapInPandas``.

    ``spark.range`` with as many partitions as rows gives each chunk a task of its own, and Spark
    starts tasks in the order of their partitions.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"sweep-{uuid.uuid4().hex[:12]}"
        self.workers = max(1, _slots(spark))

    def warm_up(self, parts: int) -> None:
        """Compile here for a local master; elsewhere the first task of each machine does.

        The others of that machine wait for it (:mod:`flowcontrol.kernel.cache`).
        """
        if _is_local(self._spark):
            warm_up(parts)
            return
        cold = self._cold_machines(parts)
        if cold:
            where = f"{cold} machine{'s' * (cold > 1)} of the cluster"
            announce_step(f"compiling the virtual clock on {where}", COMPILING_USUALLY)

    def _cold_machines(self, parts: int) -> int:
        """Return on how many machines the kernel is still to be compiled."""

        def look(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            import socket

            for frame in frames:
                machine = socket.gethostname() if lacks_kernel(parts) else None
                yield frame.assign(machine=machine)[["machine"]]

        tasks = self._spark.range(0, self.workers, 1, self.workers)
        try:
            found = tasks.mapInPandas(look, "machine string").collect()
        except Exception:  # the work will fail likewise and report it
            return 0
        return len({row.machine for row in found} - {None})

    def start(self, work: Work) -> list[Future[Any]]:
        """Start all chunks of some work."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="sweep")
        future = pool.submit(self._run, work)
        pool.shutdown(wait=False)
        return [future]

    def stop(self) -> None:
        """Do nothing: pending tasks find the stop file and end."""

    def abandon(self) -> None:
        """Cancel the job if it still runs."""
        self._spark.interruptTag(self._tag)

    def close(self) -> None:
        """Do nothing: the session is not ours."""

    def _run(self, work: Work) -> int:
        """Run the job; return the number of runs done."""
        self._spark.addTag(self._tag)
        chunks = len(work.chunks)

        def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            import pandas as pd

            for frame in frames:
                yield pd.DataFrame({"done": [work.run(int(i)) for i in frame["id"]]})

        numbers = self._spark.range(0, chunks, 1, chunks)
        rows = numbers.mapInPandas(run, "done long").collect()
        return sum(row.done for row in rows)


Executor = ProcessExecutor | SparkExecutor
"""A way to run chunks."""


def _slots(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context; each server says so in its own class
        return _PER_CORE * (os.cpu_count() or 1)


def _is_local(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, in processes of this very Spark."""
    try:
        return bool(_LOCAL.match(str(spark.sparkContext.master)))
    except Exception:  # Spark Connect: its server may be anywhere
        return False


def check_processes(count: int | None) -> None:
    """Raise ScenarioError if the number of processes is below one."""
    if count is not None and count < 1:
        raise ScenarioError([Problem("--processes", f"{count}: state at least 1")], "command")


def make_executor(
    spark: SparkSession | None, processes: int | None, *, is_kept: bool = False
) -> Executor:
    """Return the requested way to run chunks.

    - ``spark``: by default the running session, else a new one.
    - ``is_kept``: whether work is started more than once, so that processes are kept until they are
      closed.

    Raises RunError if Spark is wanted and cannot be started.
    """
    if processes is not None:
        return ProcessExecutor(processes, is_kept=is_kept)
    try:
        return SparkExecutor(spark or _own_session())
    except RunError as error:
        raise RunError(
            f"{error}; or run in processes of this machine, without Spark (--processes 2)"
        ) from error
    except Exception as error:
        raise RunError(
            f"Spark cannot be started, {reason_of(error)}; install pyspark and Java 17 or newer, "
            "or run without Spark, in processes of this machine (--processes 2)"
        ) from error


def reason_of(error: BaseException) -> str:
    """Return an error in one line: the last line of a traceback that Spark passes on."""
    lines = str(error).strip().splitlines()
    named = [line for line in lines if _ERROR_LINE.match(line)]
    return named[-1] if named else f"{type(error).__name__}: {lines[0] if lines else ''}"


def _own_session() -> SparkSession:
    """Return the running session, or a new one.

    Spark's own handler of Ctrl-C cancels all jobs; an experiment lets the runs under way end.
    """
    found = get_session("flowcontrol")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return found


# --- Follow chunks that run elsewhere: poll their results, show progress, stop them.


POLL_S: Final = 0.25
"""Seconds between two polls of the workers' results."""

_PATIENCE_S: Final = 30.0
"""Seconds that current runs may take to end when an experiment is stopped."""

_STOP_POLL_S: Final = 0.02
"""Seconds between two checks whether they have ended."""


class Progress(Protocol):
    """Progress of an experiment, shown to the user."""

    def update(self, done: int, failed: int = 0) -> None:
        """Show how many runs are done, and how many failed."""


ShowProgress = Callable[[int, int], AbstractContextManager[Progress]]
"""Called with the number of runs and the number already done."""


class _Silent:
    """Shows nothing."""

    def update(self, done: int, failed: int = 0) -> None:
        """Do nothing."""


def shown_late(noun: str, after_s: float = PATIENCE_S) -> ShowProgress:
    """Return how an experiment's progress is shown, once it has taken some time.

    ``after_s``: nothing is shown before; nor at all where :func:`flowcontrol.notices.quiet` holds.
    """
    if is_quiet():
        return lambda total, done: nullcontext(_Silent())
    return lambda total, done: SweepProgress(total, done, noun=noun, after_s=after_s)


def follow(
    executor: Executor, work: Work, poll: Callable[[], str], warn: Callable[[str], None], noun: str
) -> None:
    """Start all chunks and wait for them.

    - ``poll``: called every :data:`POLL_S` seconds and at the end: collects the workers' results
      and returns the progress as text, for the message if they fail.
    - ``warn``: called with a message when the experiment stops.

    Raises RunError if the workers fail. After any exception, Ctrl-C included, current runs have 30
    s to end.
    """
    futures: Sequence[Future[Any]] = ()
    try:
        futures = executor.start(work)
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, POLL_S, FIRST_EXCEPTION)
            state = poll()
            for future in finished:
                error = future.exception()
                if error is not None:
                    text = f"the workers failed, {reason_of(error)}; {state}"
                    raise RunError(f"{text}, and the same command continues it") from error
    except BaseException:
        work.stop_file.touch()
        warn(f"stopping after the {noun} under way")
        with suppress(Exception):  # Spark may be gone
            executor.stop()
            _await(futures)
            executor.abandon()
        raise


def _await(futures: Sequence[Future[Any]]) -> None:
    """Wait until all started chunks have ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and not all(future.done() for future in futures):
        time.sleep(_STOP_POLL_S)


def unseen_results(what: str, folder: Path) -> RunError:
    """Return the error for results that workers report and the driver cannot see."""
    return RunError(
        f"{what} not in {folder}: the workers must see the same folder as the driver; "
        "name one that all machines share"
    )
