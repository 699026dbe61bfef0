"""What the commands share: arguments, exit status, messages on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from flowcontrol.errors import FlowControlError, ScenarioError

REFUSED = 2
FAILED = 1
INTERRUPTED = 130
"""What a shell reports of a process that Ctrl-C ended (128 + SIGINT)."""

AGAIN = "interrupted; run the same command again to continue"
"""What Ctrl-C leaves to do."""


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and ``--set``."""
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    add_overrides(parser)


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


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument(
        "--quiet", action="store_true", help="show neither progress nor what takes long"
    )


def exit_status(command: Callable[[], int], noun: str, interrupted: str = AGAIN) -> int:
    """Run a command; return its exit status.

    Returns the command's own; 2 if it is refused, 1 if it fails, 130 if it is interrupted.
    """
    try:
        return command()
    except ScenarioError as error:
        return refuse(str(error))
    except FlowControlError as error:
        note(f"{noun} failed: {error}")
        return FAILED
    except OSError as error:  # a full disk, a folder that was removed meanwhile
        note(f"{noun} failed: {' '.join(str(error).split())}")
        return FAILED
    except KeyboardInterrupt:
        note(interrupted)
        return INTERRUPTED


def set_run(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], int],
    noun: str,
    interrupted: str = AGAIN,
) -> None:
    """Have a parser's command do its work, with the status and messages of :func:`exit_status`."""
    parser.set_defaults(run=lambda options: exit_status(lambda: work(options), noun, interrupted))


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")


def note(text: str) -> None:
    """Write a line to standard error, with the program's name before it."""
    say(f"flowcontrol: {text}")


def refuse(text: str) -> int:
    """Say why a command is refused; return its exit status."""
    note(text)
    return REFUSED
