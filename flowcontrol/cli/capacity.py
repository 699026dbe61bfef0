"""``flowcontrol capacity``: the highest rate that a source can sustain."""

import argparse

from flowcontrol.cli.command import add_quiet, add_scenario, exit_status, say
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.capacity import capacity
from flowcontrol.experiments.capacity.find import TOLERANCE
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.wording import describe_probe


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Find the highest rate that a source can emit without sustained back pressure, by runs on "
        "the virtual clock."
    )
    add_scenario(parser)
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
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Find the rate; return the exit status.

    Returns
    -------
    int
        0; 2 if the scenario or the command is refused; 1 if a run fails; 130 if interrupted.
    """
    return exit_status(lambda: _find(options), "the search", "interrupted")


def _find(options: argparse.Namespace) -> int:
    found = capacity(
        options.scenario,
        options.stage,
        overrides=options.set,
        tolerance=_tolerance(options.tolerance),
        progress=None if options.quiet else _say_probe,
        quiet=options.quiet,
    )
    found.show()
    return 0


def _say_probe(probe: Probe) -> None:
    say(describe_probe(probe))


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
