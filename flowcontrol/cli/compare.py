"""``flowcontrol compare``: a scenario under several systems' flow control."""

import argparse
import os
import sys

from flowcontrol.cli.command import FAILED, add_folder, add_quiet, add_scenario, say, set_run
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.compare import compare
from flowcontrol.experiments.executor import shown_late
from flowcontrol.spark.session import is_launched


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = "Run a scenario under several systems' flow control, and compare them."
    add_scenario(parser)
    parser.add_argument(
        "--systems",
        metavar="NAME,NAME",
        help="presets, as listed by `flowcontrol systems`; default: all",
    )
    parser.add_argument(
        "--clock",
        choices=("virtual", "live"),
        default="virtual",
        help="virtual: systems side by side; live: one after the other, on Spark; default: virtual",
    )
    add_folder(parser, "comparison", "compare")
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="virtual clock: run in N processes on this machine, without Spark; default: one per "
        "processor, or Spark if spark-submit started the command",
    )
    add_quiet(parser)
    set_run(parser, _compare, "the comparison")


def _compare(options: argparse.Namespace) -> int:
    result = compare(
        options.scenario,
        systems=options.systems,
        overrides=options.set,
        clock=options.clock,
        out=options.out,
        overwrite=options.overwrite,
        processes=_processes(options),
        progress=None if options.quiet else shown_late("systems", after_s=0),
        quiet=options.quiet,
    )
    result.show()
    sys.stdout.write(f"table:  {result.path / 'results'}\nreport: {result.report}\n")
    failed = [outcome.system for outcome in result.failed()]
    if failed:
        say(f"failed: {', '.join(failed)}; run the same command again to retry these")
    return FAILED if failed else 0


def _processes(options: argparse.Namespace) -> int | None:
    """Return the number of local processes; None: run on Spark."""
    if options.processes is not None and options.clock == "live":
        text = f"{options.processes}: the live clock runs on Spark: leave it out"
        raise ScenarioError([Problem("--processes", text)], "command")
    if options.processes is None and options.clock == "virtual" and not is_launched():
        return os.cpu_count() or 1
    given: int | None = options.processes
    return given
