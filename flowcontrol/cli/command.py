"""What the commands share: arguments, exit status, messages on standard error."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.errors import FlowControlError, ScenarioError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = 2
FAILED = 1
INTERRUPTED = 130
"""What a shell reports of a process that Ctrl-C ended (128 + SIGINT)."""


def scenario_parser(
    prog: str, description: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Return the parser of a pipeline, with its scenario and ``--set``."""
    parser = argparse.ArgumentParser(prog, None, description, epilog, allow_abbrev=False)
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    add_overrides(parser)
    return parser


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario, such as duration_s=20; may be repeated",
    )


def add_folder(parser: argparse.ArgumentParser, noun: str, suffix: str) -> None:
    """Add ``--out`` and ``--overwrite``; without ``--out`` the suffix ends the folder's name."""
    parser.add_argument(
        "--out", help=f"folder of the results; default: out/<scenario name>-{suffix}"
    )
    parser.add_argument("--overwrite", action="store_true", help=f"replace the {noun} in --out")


def add_processes(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add ``--processes``."""
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help=f"{prefix}run in N processes of this machine, without Spark",
    )


def exit_status(
    command: Callable[[], int],
    noun: str,
    interrupted: str = "interrupted; run the same command again to continue",
) -> int:
    """Run a command; return its exit status.

    Parameters
    ----------
    command : callable
        Does the work and returns the status.
    noun : str
        What fails, such as "the run".
    interrupted : str, optional
        Message after Ctrl-C.

    Returns
    -------
    int
        The command's own; 2 if it is refused, 1 if it fails, 130 if it is interrupted.
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
    from flowcontrol.spark.session import get_session

    found = get_session(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return found
