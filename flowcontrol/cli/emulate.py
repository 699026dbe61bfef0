"""The command line of ``pipelines/emulate.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flowcontrol.cli.command import INTERRUPTED, ending, say
from flowcontrol.job import Job
from flowcontrol.report import RunProgress, print_summary
from flowcontrol.run.emulate import RunResult, emulate
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
        0; 2 for a refused scenario or command; 1 for a failed run; 130 if it was stopped.
    """
    options = _parser().parse_args(arguments)
    return ending(
        lambda: _run(options),
        "the run",
        "interrupted; the same command goes on from what was committed",
    )


def _run(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, overrides=options.set)
    result = emulate(
        scenario,
        out=options.out,
        clock=options.clock,
        overwrite=options.overwrite,
        progress=_progress,
        warn=say,
    )
    _report(result)
    return 0 if result.is_finished else INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emulate.py",
        description="Emulate backpressure in a stream job.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    parser.add_argument(
        "--clock", choices=("live", "virtual"), default="live", help="default: live"
    )
    parser.add_argument("--out", help="folder of the results; default: out/<scenario name>-<clock>")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the run that stands in --out"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario, such as duration_s=20; may be repeated",
    )
    return parser


def _progress(job: Job) -> RunProgress:
    return RunProgress(job.rounds, job.round_us / 1e6)


def _report(result: RunResult) -> None:
    print_summary(result.summary)
    if not result.is_finished:
        say("stopped before its end; the same command resumes it")
    sys.stdout.write(f"report: {result.path / 'report.html'}\n")
