"""``flowcontrol advise``: changes that help a scenario, each of them run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.cli.command import add_folder, add_overrides, add_quiet, set_run
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.advise import advise
from flowcontrol.experiments.advise.result import GOALS
from flowcontrol.experiments.executor import shown_late

if TYPE_CHECKING:
    from flowcontrol.experiments.advise import Advice


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Run changes of a scenario on the virtual clock, and say which would help: the effect of "
        "each on throughput, latency, checkpoints, memory and slots."
    )
    parser.add_argument(
        "scenario", type=Path, nargs="?", help="scenario file, such as conf/experiment.yaml"
    )
    parser.add_argument(
        "--link", metavar="PATH", help="folder of a link: make the scenario from its ledger"
    )
    parser.add_argument(
        "--spark",
        metavar="FILE",
        help="with --link: progress of the receiver's query, one JSON object per line; it shows "
        "the fixed cost of a batch",
    )
    add_overrides(parser)
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
    found = _found(options)
    found.show()
    sys.stdout.write(f"report: {found.report}\n")
    return 0


def _found(options: argparse.Namespace) -> Advice:
    if (options.scenario is None) == (options.link is None):
        text = "name a scenario, or a link with --link PATH, and not both"
        raise ScenarioError([Problem("SCENARIO", text)], "command")
    if options.spark is not None and options.link is None:
        text = (
            f"{options.spark}: only with --link; `flowcontrol calibrate --spark` makes a scenario"
        )
        raise ScenarioError([Problem("--spark", text)], "command")
    if options.link is not None:
        from flowcontrol.calibration.link_advice import advise_link

        return advise_link(
            options.link,
            options.spark,
            overrides=options.set,
            goal=options.goal,
            out=options.out,
            overwrite=options.overwrite,
            quiet=options.quiet,
        )
    return advise(
        options.scenario,
        overrides=options.set,
        goal=options.goal,
        out=options.out,
        overwrite=options.overwrite,
        progress=None if options.quiet else shown_late("changes", after_s=0),
        quiet=options.quiet,
    )
