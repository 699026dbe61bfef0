"""``flowcontrol emulate``: run a scenario on a clock."""

import argparse
import sys

from flowcontrol.cli.command import INTERRUPTED, add_folder, add_quiet, add_scenario, say, set_run
from flowcontrol.run.emulate import emulate, show_run
from flowcontrol.topics.shown import print_advice


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = "Emulate backpressure in a stream job."
    add_scenario(parser)
    parser.add_argument(
        "--clock",
        choices=("live", "virtual"),
        default="live",
        help="live: queries on Spark, real rows; virtual: a compiled loop, without Java; "
        "default: live",
    )
    parser.add_argument(
        "--by",
        choices=("stage", "subtask"),
        default="stage",
        help="rows of the table in the terminal; subtask shows hot subtasks; default: stage",
    )
    parser.add_argument(
        "--no-advice", action="store_true", help="virtual clock: do not try changes that would help"
    )
    add_folder(parser, "run", "<clock>")
    add_quiet(parser)
    set_run(parser, _run, "the run")


def _run(options: argparse.Namespace) -> int:
    result = emulate(
        options.scenario,
        overrides=options.set,
        out=options.out,
        clock=options.clock,
        overwrite=options.overwrite,
        progress=None if options.quiet else show_run(after_s=0),
        warn=say,
        quiet=options.quiet,
        advice=options.clock == "virtual" and not options.no_advice,
        answer=lambda found: found.show_answer(by=options.by),
    )
    print_advice(result.summary)
    if not result.is_finished:
        say("stopped before its end; run the same command again to resume it")
    sys.stdout.write(f"report: {result.path / 'report.html'}\n")
    return 0 if result.is_finished else INTERRUPTED
