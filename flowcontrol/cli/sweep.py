"""``flowcontrol sweep``: many variants of a scenario, into one table."""

import argparse
import sys

from flowcontrol.cli.command import add_folder, add_processes, add_quiet, add_scenario, say, set_run
from flowcontrol.experiments.executor import shown_late
from flowcontrol.experiments.sweep import sweep

VALUES = (
    "Values are a list, 1,2,4, a range START:STOP:COUNT of evenly spaced points, both ends "
    "included (1000:10000:50 is 50 points), or a list of both: 0,100:400:4. Keys are written as "
    "for --set: stages.NAME.KEY, and options.KEY with or without quotes around Flink's own key."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Run many variants of a scenario on the virtual clock, distributed by Spark."
    )
    parser.epilog = VALUES
    add_scenario(parser)
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="KEY=VALUES",
        help="values of one key; may be repeated to run all combinations",
    )
    parser.add_argument(
        "--replications", type=int, default=1, metavar="N", help="runs per point, one per seed"
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="draw N of the combinations without replacement"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="seed of the sample; default: 1"
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="STAGE.COLUMN",
        help="figure to report, such as sink.rate_in_second_half; may be repeated. COLUMN alone "
        "means that of the first sink, or, for a lag (max_lag_s, caught_up_after_s), of the "
        "first source that reads a log. The first figure ranks the points, over the second "
        "half of the run; the next one breaks ties",
    )
    add_folder(parser, "sweep", "sweep")
    add_processes(parser)
    add_quiet(parser)
    set_run(parser, _sweep, "the sweep")


def _sweep(options: argparse.Namespace) -> int:
    result = sweep(
        options.scenario,
        options.vary,
        overrides=options.set,
        out=options.out,
        replications=options.replications,
        sample=options.sample,
        seed=options.seed,
        metrics=options.metric,
        overwrite=options.overwrite,
        processes=options.processes,
        progress=None if options.quiet else shown_late("variants", after_s=0),
        warn=say,
        quiet=options.quiet,
    )
    result.show()
    sys.stdout.write(f"table:  {result.results}\nreport: {result.path / 'report.html'}\n")
    return 0
