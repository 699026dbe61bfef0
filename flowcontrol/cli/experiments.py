"""The command lines of ``pipelines/compare.py`` and ``sweep.py``."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flowcontrol.cli.command import (
    FAILED,
    add_folder,
    add_processes,
    exit_status,
    say,
    scenario_parser,
    session,
)
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.compare import compare, print_comparison
from flowcontrol.experiments.executor import Simulate
from flowcontrol.experiments.sweep import SweepProgress, print_sweep, sweep
from flowcontrol.experiments.sweep.varied import split_assignment
from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.scenario import Scenario


def compare_command(arguments: Sequence[str] | None = None) -> int:
    """Compare systems; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0; 2 if the scenario or the command is refused; 1 if the run fails; 130 if interrupted.
    """
    options = _compare_parser().parse_args(arguments)
    return exit_status(lambda: _compare(options), "the comparison")


def _compare(options: argparse.Namespace) -> int:
    result = compare(
        options.scenario,
        systems=None if options.systems is None else _names(options.systems),
        clock=options.clock or "virtual",
        out=options.out,
        overrides=options.set,
        overwrite=options.overwrite,
        spark=lambda: session("flowcontrol compare"),
        processes=_processes(options),
        progress=lambda total, done: SweepProgress(total, done, noun="systems"),
        warn=say,
        live=_live,
    )
    print_comparison(result)
    sys.stdout.write(f"table:  {result.path / 'results'}\nreport: {result.page}\n")
    failed = [outcome.system for outcome in result.failed()]
    if failed:
        say(f"failed: {', '.join(failed)}; run the same command again to retry these")
    return FAILED if failed else 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _processes(options: argparse.Namespace) -> int | None:
    """Return the number of local processes; None: run on Spark.

    ``--clock virtual`` must not need Java: the start script starts no JVM for it.
    """
    if options.processes is not None and options.clock == "live":
        text = f"{options.processes}: the live clock runs on Spark: leave it out"
        raise ScenarioError([Problem("--processes", text)], "command")
    if options.processes is None and options.clock == "virtual":
        return os.cpu_count() or 1
    given: int | None = options.processes
    return given


def _live(folder: Path) -> Simulate:
    """Return a function that runs a scenario on the live clock in a folder."""

    def run(scenario: Scenario) -> RunResult:
        result = emulate(scenario, out=folder, clock="live", overwrite=True)
        if not result.is_finished:
            raise KeyboardInterrupt
        return result

    return run


def _compare_parser() -> argparse.ArgumentParser:
    parser = scenario_parser(
        "compare.py", "Run a scenario under several systems' flow control, and compare them."
    )
    parser.add_argument(
        "--systems",
        metavar="NAME,NAME",
        help="presets, as listed by `flowcontrol systems`; default: all",
    )
    parser.add_argument(
        "--clock",
        choices=("virtual", "live"),
        help="virtual: in processes of this machine, without Java; live: one system after the "
        "other; default: the virtual clock, spread over Spark",
    )
    add_folder(parser, "comparison", "compare")
    add_processes(parser, "virtual clock: ")
    return parser


_VALUES = (
    "Values are a list, 1,2,4, a range START:STOP:COUNT of evenly spaced points, both ends "
    "included (1000:10000:50 is 50 points), or a list of both: 0,100:400:4. Keys are written as "
    "for --set: stages.NAME.KEY, and options.KEY with or without quotes around Flink's own key."
)


def sweep_command(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0; 2 if a variant or the command is refused; 1 if the run fails; 130 if interrupted.
    """
    options = _sweep_parser().parse_args(arguments)
    return exit_status(lambda: _sweep(options), "the sweep")


def _sweep(options: argparse.Namespace) -> int:
    result = sweep(
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
    print_sweep(result)
    sys.stdout.write(f"table:  {result.results}\nreport: {result.path / 'report.html'}\n")
    return 0


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


def _sweep_parser() -> argparse.ArgumentParser:
    parser = scenario_parser(
        "sweep.py",
        "Run many variants of a scenario on the virtual clock, spread over Spark.",
        epilog=_VALUES,
    )
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
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the draw; default: 1")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="STAGE.COLUMN",
        help="figure to report, such as sink.rate_in_second_half; may be repeated. Points are "
        "ranked by the first, over the second half of the run; the next one breaks ties",
    )
    add_folder(parser, "sweep", "sweep")
    add_processes(parser)
    return parser
