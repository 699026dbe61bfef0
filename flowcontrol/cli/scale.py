"""``flowcontrol scale``: what controllers of the parallelism choose, and the effect on the run."""

import argparse
import sys

from flowcontrol.cli.command import add_folder, add_quiet, add_scenario, set_run
from flowcontrol.run.emulate import show_run
from flowcontrol.run.scale import FILE, scale


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Run a scenario while a controller changes its parallelism: DS2, Flink's autoscaler, or "
        "both, and once as it is."
    )
    add_scenario(parser)
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME",
        help="ds2 or flink-autoscaler; may be repeated; default: that of the scenario, else both",
    )
    add_folder(parser, "scalings", "scale")
    add_quiet(parser)
    set_run(parser, _scale, "the run", "interrupted")


def _scale(options: argparse.Namespace) -> int:
    result = scale(
        options.scenario,
        policies=options.policy,
        overrides=options.set,
        out=options.out,
        overwrite=options.overwrite,
        progress=None if options.quiet else show_run(after_s=0),
        quiet=options.quiet,
    )
    result.show()
    pages = [f"report: {run.path / 'report.html'}\n" for run in result.runs.values()]
    sys.stdout.write("".join([f"figures: {result.path / FILE}\n", *pages]))
    return 0
