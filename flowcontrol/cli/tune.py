"""``flowcontrol tune``: the best values of some keys, with fewer runs than a sweep."""

import argparse
import sys
from collections.abc import Callable

from flowcontrol.cli.command import (
    FAILED,
    add_folder,
    add_processes,
    add_quiet,
    add_scenario,
    say,
    set_run,
)
from flowcontrol.cli.sweep import VALUES
from flowcontrol.experiments.executor import shown_late
from flowcontrol.experiments.tune import tune
from flowcontrol.experiments.tune.plan import BATCH, RUNS

_FIGURES = (
    "Figures are memory (network memory that the job is granted, bytes), slots, and those of a "
    "sweep, STAGE.COLUMN or COLUMN: sink.latency_p99_ms, sink.rate_in_second_half, "
    "checkpoint_e2e_p50_ms. The exit status is 1 if no point satisfies every constraint; the table "
    "and the page are there, best.yaml is not."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Search the values of some keys for the best scenario, with runs on the virtual clock, "
        "distributed by Spark."
    )
    parser.epilog = f"{VALUES} {_FIGURES}"
    add_scenario(parser)
    for direction in ("minimise", "maximise"):
        parser.add_argument(
            f"--{direction}",
            dest="objectives",
            action="append",
            default=[],
            type=_directed(direction),
            metavar="FIGURE",
            help=f"figure to {direction}, such as "
            + ("memory" if direction == "minimise" else "sink.rate_in")
            + "; one or two in all",
        )
    parser.add_argument(
        "--subject-to",
        action="append",
        default=[],
        metavar="FIGURE<=LIMIT",
        help="constraint, such as 'sink.latency_p99_ms<=200' or 'sink.rate_in>=400'; the limit "
        "may have a unit, such as 0.2s or 4mb; may be repeated",
    )
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="KEY=VALUES",
        help="values of one key to choose from; may be repeated",
    )
    parser.add_argument(
        "--runs", type=int, default=RUNS, metavar="N", help=f"points to run; default: {RUNS}"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH,
        metavar="N",
        help=f"points that are chosen at a time, so that they run side by side; default: {BATCH}",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="seed of the search; default: 1"
    )
    add_folder(parser, "search", "tune")
    add_processes(parser)
    add_quiet(parser)
    set_run(parser, _tune, "the search")


def _directed(direction: str) -> Callable[[str], tuple[str, str]]:
    def read(text: str) -> tuple[str, str]:
        return direction, text

    return read


def _tune(options: argparse.Namespace) -> int:
    result = tune(
        options.scenario,
        options.vary,
        objectives=options.objectives,
        subject_to=options.subject_to,
        overrides=options.set,
        runs=options.runs,
        batch=options.batch,
        seed=options.seed,
        out=options.out,
        overwrite=options.overwrite,
        processes=options.processes,
        progress=None if options.quiet else shown_late("runs", after_s=0),
        warn=say,
        quiet=options.quiet,
    )
    result.show()
    sys.stdout.write(f"table:  {result.path / 'tuning'}\nreport: {result.path / 'report.html'}\n")
    if result.best is None:
        return FAILED
    sys.stdout.write(f"best:   {result.path / 'best.yaml'}\n")
    return 0
