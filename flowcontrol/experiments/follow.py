"""Follow chunks that run elsewhere: poll their results, show progress, stop them."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from flowcontrol.errors import RunError
from flowcontrol.experiments.executor import Executor, Work, reason_of
from flowcontrol.notices import PATIENCE_S, is_quiet
from flowcontrol.report.progress import SweepProgress

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
