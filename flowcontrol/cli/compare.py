"""The command line of ``pipelines/compare.py``."""

from __future__ import annotations

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
from flowcontrol.experiments.compare import CompareResult, compare, print_comparison
from flowcontrol.experiments.executor import Simulate
from flowcontrol.experiments.sweep import SweepProgress
from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.scenario import Scenario


def main(arguments: Sequence[str] | None = None) -> int:
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
    options = _parser().parse_args(arguments)
    return exit_status(
        lambda: _run(options),
        "the comparison",
        "interrupted; run the same command again to continue",
    )


def _run(options: argparse.Namespace) -> int:
    result = _compare(options)
    print_comparison(result)
    sys.stdout.write(f"table:  {result.path / 'results'}\nreport: {result.page}\n")
    failed = [outcome.system for outcome in result.failed()]
    if failed:
        say(f"failed: {', '.join(failed)}; run the same command again to retry these")
    return FAILED if failed else 0


def _compare(options: argparse.Namespace) -> CompareResult:
    return compare(
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


def _parser() -> argparse.ArgumentParser:
    parser = scenario_parser(
        "compare.py",
        "Run a scenario under several systems' flow control, and compare them.",
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
