"""How the driver follows chunks that run elsewhere: it looks, shows progress, and stops them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from flowcontrol.errors import RunError
from flowcontrol.experiments.spread import Chunked, Spread, reason_of

POLL_S: Final = 0.25
"""Seconds between two polls of what the workers have handed over."""

_PATIENCE_S: Final = 30.0
"""Seconds that the runs under way are given to end when an experiment is stopped."""

_STOP_POLL_S: Final = 0.02
"""Seconds between two polls whether they have."""


class Progress(Protocol):
    """Whatever shows how far an experiment is."""

    def update(self, done: int, failed: int = 0) -> None:
        """Show how many runs are done, and how many failed."""


ShowProgress = Callable[[int, int], AbstractContextManager[Progress]]
"""Called with the runs of the experiment and those done already."""


class _Silent:
    """Shows nothing."""

    def update(self, done: int, failed: int = 0) -> None:
        """Do nothing."""


def shown(progress: ShowProgress | None, total: int, done: int) -> AbstractContextManager[Progress]:
    """Return the progress bar; without ``progress`` one that shows nothing."""
    return progress(total, done) if progress else nullcontext(_Silent())


def ignore(*_: object) -> None:
    """Do nothing: the callback of whoever gave none."""


def follow(
    spread: Spread,
    work: Chunked,
    stop_file: Path,
    poll: Callable[[], str],
    warn: Callable[[str], None],
    noun: str,
) -> None:
    """Start all chunks and wait until they are through.

    Parameters
    ----------
    spread : Spread
        Where they run.
    work : Chunked
        The chunks.
    stop_file : Path
        Written if the experiment is to stop: workers start no further run once it is there.
    poll : callable
        Called every :data:`POLL_S` seconds and at the end: collects what the workers have
        handed over, and returns how far the experiment is, for the message if they fail.
    warn : callable
        Told that the experiment stops.
    noun : str
        What runs, in the plural.

    Raises
    ------
    RunError
        If the workers fail. As with any other exception, Ctrl-C included, the runs under way are
        given 30 s to end.
    """
    futures: Sequence[Future[Any]] = ()
    try:
        futures = spread.start(work)
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, POLL_S, FIRST_EXCEPTION)
            state = poll()
            for future in finished:
                error = future.exception()
                if error is not None:
                    text = f"the workers failed, {reason_of(error)}; {state}"
                    raise RunError(f"{text}, and the same command goes on") from error
    except BaseException:
        stop_file.touch()
        warn(f"stopping after the {noun} under way")
        with suppress(Exception):  # a Spark that is gone cannot be told
            spread.stop()
            _await(futures)
            spread.abandon()
        raise


def _await(futures: Sequence[Future[Any]]) -> None:
    """Wait until what was stopped has ended; what never began counts as done."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and not all(future.done() for future in futures):
        time.sleep(_STOP_POLL_S)


def unseen_results(what: str, folder: Path) -> RunError:
    """Return the error of runs that workers report but whose results the driver cannot see."""
    return RunError(
        f"{what} not in {folder}: the workers must see the same folder as the driver; "
        "name one that all machines share"
    )
