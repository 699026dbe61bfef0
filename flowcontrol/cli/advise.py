"""``flowcontrol advise``: changes that help a scenario, each tried out."""

import argparse
import sys

from flowcontrol.cli.command import add_folder, add_quiet, add_scenario, set_run
from flowcontrol.experiments.advise import advise
from flowcontrol.experiments.advise.figures import GOALS
from flowcontrol.experiments.follow import shown_late


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Say what would help a job: changes of the scenario, each run on the virtual clock, and "
        "what it does to throughput, latency, checkpoints, memory and slots."
    )
    add_scenario(parser)
    parser.add_argument(
        "--for",
        dest="goal",
        metavar="GOAL",
        help=f"what to improve: {', '.join(GOALS)}; default: what the job lacks",
    )
    add_folder(parser, "advice", "advice")
    add_quiet(parser)
    set_run(parser, _advise, "the advice", "interrupted")


def _advise(options: argparse.Namespace) -> int:
    found = advise(
        options.scenario,
        overrides=options.set,
        goal=options.goal,
        out=options.out,
        overwrite=options.overwrite,
        progress=None if options.quiet else shown_late("changes", after_s=0),
        quiet=options.quiet,
    )
    found.show()
    sys.stdout.write(f"report: {found.report}\n")
    return 0
