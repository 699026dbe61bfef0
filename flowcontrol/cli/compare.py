"""The command line of ``pipelines/compare.py``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flowcontrol.cli.command import FAILED, ending, say, session
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.compare import CompareResult, compare, print_comparison
from flowcontrol.experiments.run import Simulate
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
        0; 2 for a refused scenario or command; 1 for a failed run; 130 if it was stopped.
    """
    options = _parser().parse_args(arguments)
    return ending(
        lambda: _run(options),
        "the comparison",
        "interrupted; the same command runs what is missing",
    )


def _run(options: argparse.Namespace) -> int:
    result = _compare(options)
    print_comparison(result)
    sys.stdout.write(f"table:  {result.path / 'results'}\nreport: {result.page}\n")
    failed = [outcome.system for outcome in result.failed()]
    if failed:
        say(f"failed: {', '.join(failed)}; the same command tries these again")
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
    """Return how many processes do without Spark; None: Spark.

    ``--clock virtual`` needs no Java, for no pipeline: the start script starts none then.
    """
    if options.processes is not None and options.clock == "live":
        text = f"{options.processes}: the live clock runs on Spark: leave it out"
        raise ScenarioError([Problem("--processes", text)], "command")
    if options.processes is None and options.clock == "virtual":
        return os.cpu_count() or 1
    given: int | None = options.processes
    return given


def _live(folder: Path) -> Simulate:
    """Return what runs a scenario on the live clock in a folder of its own."""

    def run(scenario: Scenario) -> RunResult:
        result = emulate(scenario, out=folder, clock="live", overwrite=True)
        if not result.is_finished:
            raise KeyboardInterrupt
        return result

    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compare.py",
        description="Run a scenario under several systems' flow control, and compare them.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    parser.add_argument(
        "--systems",
        metavar="NAME,NAME",
        help="presets, as `flowcontrol systems` lists them; default: all of them",
    )
    parser.add_argument(
        "--clock",
        choices=("virtual", "live"),
        help="default: the virtual clock, spread over Spark; --clock virtual: the same in "
        "processes of this machine, without Java; --clock live: one system after the other",
    )
    parser.add_argument("--out", help="folder; default: out/<scenario name>-compare")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario for all systems; may be repeated",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the comparison that stands in --out"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="virtual clock without Spark: in N processes of this machine",
    )
    return parser
