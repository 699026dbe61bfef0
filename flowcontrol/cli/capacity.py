"""``flowcontrol capacity``: the highest rate that a source can sustain."""

import argparse

from flowcontrol.cli.command import add_quiet, add_scenario, say, set_run
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.capacity import capacity
from flowcontrol.experiments.capacity.find import COARSEST, FINEST, TOLERANCE
from flowcontrol.experiments.capacity.probe import Probe
from flowcontrol.experiments.capacity.result import describe_probe


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Find the highest rate that a source can emit without sustained backpressure, with runs "
        "on the virtual clock."
    )
    add_scenario(parser)
    parser.add_argument(
        "--stage",
        required=True,
        help="source whose rate is searched; a constant rate replaces its schedule",
    )
    parser.add_argument(
        "--tolerance",
        default=str(TOLERANCE),
        help=f"allowed relative error, {FINEST:g} to {COARSEST:g}; default {TOLERANCE}",
    )
    add_quiet(parser)
    set_run(parser, _find, "the search", "interrupted")


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
    if not FINEST <= value <= COARSEST:
        limits = f"at least {FINEST:g} and at most {COARSEST:g}"
        message = f"{text!r} is out of range: needs a number, {limits}"
        raise ScenarioError([Problem("--tolerance", message)], "command")
    return value
