"""One line about whatever takes longer than two seconds, before it begins.

The lines go to the logger ``flowcontrol.notices``, which writes them to standard error and passes
none on. Three ways to silence them: :func:`quiet` around a call, the environment variable
``FLOWCONTROL_QUIET=1``, or ``logging.getLogger("flowcontrol.notices").setLevel("WARNING")``.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

LOGGER: Final = "flowcontrol.notices"
"""Name of the logger."""

QUIET: Final = "FLOWCONTROL_QUIET"
"""Environment variable: any value but an empty one silences the lines, the start scripts' too."""

PATIENCE_S: Final = 2.0
"""Time for which nothing may be silent, s."""

COMPILING_USUALLY: Final = "10 to 25 s, once"
"""How long the virtual clock usually takes to compile."""

_is_quiet: ContextVar[bool] = ContextVar("flowcontrol is quiet", default=False)


class _StandardError(logging.Handler):
    """Writes to what standard error is at that moment: a progress bar or a test replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


_log = logging.getLogger(LOGGER)
if not _log.handlers:
    _log.addHandler(_StandardError())
    _log.setLevel(logging.INFO)
    _log.propagate = False


def announce_step(step: str, usually: str) -> None:
    """Say that something slow begins now.

    - ``step``: what is done, such as ``starting Spark``.
    - ``usually``: how long that usually takes, such as ``4 to 10 s``.
    """
    if not is_quiet():
        _log.info("%s, usually %s", step, usually)


def progress(text: str) -> None:
    """Say how far something slow has come."""
    if not is_quiet():
        _log.info("%s", text)


def warn(text: str) -> None:
    """Say something that the caller should know; a warning of a run, in a line."""
    if not is_quiet():
        _log.warning("%s", text)


def is_quiet() -> bool:
    """Tell whether the lines are silenced, by :func:`quiet` or by the environment."""
    return _is_quiet.get() or bool(os.environ.get(QUIET))


@contextmanager
def quiet(is_wanted: bool = True) -> Iterator[None]:
    """Silence the lines of the block, in this thread.

    ``is_wanted``: False changes nothing.
    """
    before = _is_quiet.set(is_wanted or _is_quiet.get())
    try:
        yield
    finally:
        _is_quiet.reset(before)
