"""The command line of ``pipelines/sweep.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flowcontrol.cli.command import ending, say, session
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.sweep import SweepProgress, SweepResult, print_sweep, sweep
from flowcontrol.experiments.sweep.values import split_assignment

_VALUES = (
    "Values are a list, 1,2,4, or a range, START:STOP:COUNT: so many evenly spaced points, both "
    "ends included (1000:10000:50 is 50 points), or both: 0,100:400:4. Keys are those of --set: "
    "stages.NAME.KEY, and options.KEY with or without quotes around Flink's own key."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0; 2 for a refused variant or command; 1 for a failed run; 130 if it was stopped.
    """
    options = _parser().parse_args(arguments)
    return ending(
        lambda: _run(options), "the sweep", "interrupted; the same command runs what is missing"
    )


def _run(options: argparse.Namespace) -> int:
    result = _sweep(options)
    _report(result)
    return 0


def _sweep(options: argparse.Namespace) -> SweepResult:
    return sweep(
        options.scenario,
        _assignments(options.vary),
        out=options.out,
        replications=options.replications,
        sample=options.sample,
        seed=options.seed,
        metrics=options.metric,
        overrides=options.set,
        overwrite=options.overwrite,
        spark=None if options.processes is not None else lambda: session("flowcontrol sweep"),
        processes=options.processes,
        progress=SweepProgress,
        warn=say,
    )


def _assignments(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the keys and values of ``--vary``."""
    found, problems = [], []
    for text in texts:
        try:
            found.append(split_assignment(text))
        except ValueError as error:
            problems.append(Problem("--vary", str(error)))
    if problems:
        raise ScenarioError(problems, "command")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sweep.py",
        description="Run many variants of a scenario on the virtual clock, spread over Spark.",
        epilog=_VALUES,
        allow_abbrev=False,
    )
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="KEY=VALUES",
        help="values of one key; may be repeated: all combinations are run",
    )
    parser.add_argument("--out", help="folder; default: out/<scenario name>-sweep")
    parser.add_argument(
        "--replications", type=int, default=1, metavar="N", help="runs of each, with N seeds"
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="draw N of the combinations, without repetition"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of that draw; default: 1")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="STAGE.COLUMN",
        help="what the report draws, such as sink.rate_in_second_half; may be repeated. The first "
        "decides what is best, by the second half of the run; the next one between equals",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario for all variants; may be repeated",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the sweep that stands in --out"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="without Spark: in N processes of this machine",
    )
    return parser


def _report(result: SweepResult) -> None:
    print_sweep(result)
    sys.stdout.write(f"table:  {result.results}\nreport: {result.path / 'report.html'}\n")
