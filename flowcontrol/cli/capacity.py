"""The command line of ``pipelines/capacity.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flowcontrol.cli.command import ending, say
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.capacity import describe, find_capacity
from flowcontrol.experiments.capacity.find import TOLERANCE
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.wording import describe_probe
from flowcontrol.scenario import load_scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Find the sustainable rate of a source; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0; 2 for a refused scenario or command; 1 for a failed run; 130 if it was stopped.
    """
    options = _parser().parse_args(arguments)
    return ending(lambda: _find(options), "the search", "interrupted")


def _find(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, overrides=options.set)
    capacity = find_capacity(
        scenario,
        options.stage,
        tolerance=_tolerance(options.tolerance),
        progress=_say_probe,
    )
    sys.stdout.write(f"{describe(capacity)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="capacity.py",
        description="Find the highest rate that a source can emit without sustained back pressure, "
        "by runs on the virtual clock.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    parser.add_argument(
        "--stage",
        required=True,
        help="the source whose rate is sought; it gets a constant rate, all else stands as it is",
    )
    parser.add_argument(
        "--tolerance",
        default=str(TOLERANCE),
        help=f"relative error allowed, 0.0001 to 0.5; default {TOLERANCE}",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario, such as duration_s=20; may be repeated",
    )
    return parser


def _tolerance(text: str) -> float:
    """Read the tolerance; what is out of range is refused as a scenario is."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0001 <= value <= 0.5:
        message = f"{text!r} is out of range: needs a number, at least 0.0001 and at most 0.5"
        raise ScenarioError([Problem("--tolerance", message)], "the command")
    return value


def _say_probe(probe: Probe) -> None:
    say(describe_probe(probe))
