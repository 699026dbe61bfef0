"""What the command lines of the pipelines have in common: how a command ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcontrol.errors import FlowControlError, ScenarioError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = 2
FAILED = 1
INTERRUPTED = 130
"""What a shell reports of a process that Ctrl-C ended (128 + SIGINT)."""


def ending(command: Callable[[], int], noun: str, interrupted: str) -> int:
    """Run a command; return its exit status.

    Parameters
    ----------
    command : callable
        Does the work and returns the status.
    noun : str
        What fails, as "the run".
    interrupted : str
        What to say after Ctrl-C.

    Returns
    -------
    int
        The command's own; 2 for what is refused, 1 for what failed, 130 if it was stopped.
    """
    try:
        return command()
    except ScenarioError as error:
        say(str(error))
        return REFUSED
    except FlowControlError as error:
        say(f"{noun} failed: {error}")
        return FAILED
    except OSError as error:  # a full disk, a folder that was removed meanwhile
        say(f"{noun} failed: {' '.join(str(error).split())}")
        return FAILED
    except KeyboardInterrupt:
        say(interrupted)
        return INTERRUPTED


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")


def session(name: str) -> SparkSession:
    """Return a Spark session of this name for an experiment.

    Spark's own handler of Ctrl-C cancels all jobs; an experiment lets the runs under way end.
    """
    from flowcontrol.live.session import get_session

    found = get_session(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return found
