"""The command line of ``pipelines/capacity.py``."""

import argparse
import sys
from collections.abc import Sequence

from flowcontrol.cli.command import exit_status, say, scenario_parser
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.capacity import describe, find_capacity
from flowcontrol.experiments.capacity.find import TOLERANCE
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
        0; 2 if the scenario or the command is refused; 1 if the run fails; 130 if interrupted.
    """
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _find(options), "the search", "interrupted")


def _find(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, overrides=options.set)
    capacity = find_capacity(
        scenario,
        options.stage,
        tolerance=_tolerance(options.tolerance),
        progress=lambda probe: say(describe_probe(probe)),
    )
    sys.stdout.write(f"{describe(capacity)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = scenario_parser(
        "capacity.py",
        "Find the highest rate that a source can emit without sustained back pressure, "
        "by runs on the virtual clock.",
    )
    parser.add_argument(
        "--stage",
        required=True,
        help="the source to find the rate of; its schedule is replaced by a constant rate",
    )
    parser.add_argument(
        "--tolerance",
        default=str(TOLERANCE),
        help=f"allowed relative error, 0.0001 to 0.5; default {TOLERANCE}",
    )
    return parser


def _tolerance(text: str) -> float:
    """Read the tolerance; refuse it as a scenario is refused if it is out of range."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0001 <= value <= 0.5:
        message = f"{text!r} is out of range: needs a number, at least 0.0001 and at most 0.5"
        raise ScenarioError([Problem("--tolerance", message)], "the command")
    return value
