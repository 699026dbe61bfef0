"""The command line of ``pipelines/emulate.py``."""

import argparse
import sys
from collections.abc import Sequence

from flowcontrol.cli.command import INTERRUPTED, add_folder, exit_status, say, scenario_parser
from flowcontrol.report import RunProgress, print_summary
from flowcontrol.run.emulate import emulate
from flowcontrol.scenario import load_scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Emulate a scenario; return the exit status.

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
    return exit_status(lambda: _run(options), "the run")


def _run(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, overrides=options.set)
    result = emulate(
        scenario,
        out=options.out,
        clock=options.clock,
        overwrite=options.overwrite,
        progress=lambda job: RunProgress(job.rounds, job.round_us / 1e6),
        warn=say,
    )
    print_summary(result.summary)
    if not result.is_finished:
        say("stopped before its end; run the same command again to resume it")
    sys.stdout.write(f"report: {result.path / 'report.html'}\n")
    return 0 if result.is_finished else INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = scenario_parser("emulate.py", "Emulate backpressure in a stream job.")
    parser.add_argument(
        "--clock", choices=("live", "virtual"), default="live", help="default: live"
    )
    add_folder(parser, "run", "<clock>")
    return parser
