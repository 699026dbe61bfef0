"""Runs a scenario on a real Flink and emulates it: measured beside emulated.

    python bench/real_flink/scenario_run.py SCENARIO [--flink VERSION] [--set KEY=VALUE]
        [--dump FILE] [--out FOLDER] [--as-stated]

``bench/real_flink/run.sh SCENARIO ...`` is the same. docs/explanation/real-flink.md says what is
run, what is compared and what differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import beside
import pyarrow as pa
import saving
from dumps import write_dump
from flink_run import VERSIONS, FlinkRun, build, undisturbed
from refusals import check
from rest import Poll
from tables import UNASSIGNED, placement_of, result_tables
from translate import flink_job

import flowcontrol
from flowcontrol.analysis.bottleneck import find_bottleneck
from flowcontrol.errors import FlowControlError
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.given import as_base, as_scenario

OUT = Path("out") / "real_flink"


def emulated(scenario: Scenario, placement: dict[str, list[int]], *, as_stated: bool) -> Any:
    """Run a scenario on the virtual clock, its subtasks where Flink put them.

    Flink knows no rounds: unless they are wanted as stated, the clock chooses them as short as its
    figures need.
    """
    stated = dict(as_base(scenario).mapping)
    if not as_stated:
        stated.pop("round_ms", None)
    if "stages" in stated:
        stated["stages"] = [
            {**stage, "placement": placement[stage["name"]]} for stage in stated["stages"]
        ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        return flowcontrol.emulate(
            parse_scenario(stated), out=out, clock="virtual", quiet=True
        ).tables


def measured(scenario: Scenario, version: str) -> tuple[FlinkRun, dict[str, pa.Table]]:
    """Run a scenario on Flink; the run and its tables."""
    run = undisturbed(flink_job(scenario), version, scenario.duration_s)
    found = result_tables(
        *(run.polls, run.latencies, run.start_ms, scenario, run.requests),
        windows=run.windows,
        pauses=run.pauses,
        results=run.results,
        failed=run.faults,
    )
    return run, found


def merged(polls: Sequence[Poll]) -> Poll:
    """Return what polls said of each path while it ran: also of jobs that came later."""
    found: Poll = {}
    for poll in polls:
        gone = {path for path in poll if path in found and UNASSIGNED in str(poll[path])}
        found |= {path: body for path, body in poll.items() if path not in gone}
    return found


def save(folder: Path, tables: dict[str, pa.Table], found: list[beside.Row]) -> None:
    """Write the tables of the run on Flink as Delta tables, and the comparison."""
    from deltalake import write_deltalake

    for name, table in tables.items():
        write_deltalake(str(folder / name), table, mode="overwrite")
    rows = [asdict(row) for row in found]
    (folder / "beside.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def settled_s(scenario: Scenario) -> float:
    """Return from when on the last phase of a scenario is steady, s."""
    return beside.windows(scenario)[-1][0]


def run(arguments: argparse.Namespace) -> None:
    """Run and compare one scenario."""
    scenario = as_scenario(arguments.scenario, arguments.set)
    version = VERSIONS.get(arguments.flink, arguments.flink)
    check(scenario, version)
    build(version)
    print(f"Flink {version} runs {scenario.name} for {scenario.duration_s:g} s", flush=True)
    flink, tables = measured(scenario, version)
    if arguments.dump is not None:
        write_dump(arguments.dump, flink, settled_s(scenario))
    placement = placement_of(flink.polls[0] if not scenario.jobs else merged(flink.polls), scenario)
    for stage in scenario.stages:
        wanted, put = list(stage.placement or ()), placement[stage.name]
        if wanted != put:
            what = "keeps its own" if scenario.operators else "does the same"
            print(f"Flink put {stage.name} on {put}, not on {wanted}; the emulation {what}")
    ours = emulated(scenario, placement, as_stated=arguments.as_stated)
    found = list(beside.rows(scenario, tables, ours))
    print(beside.show(found))
    for name, side in (
        () if saving.is_interrupted(scenario) else (("Flink", tables), ("emulated", ours))
    ):
        print(f"\n{name}: {find_bottleneck(side, scenario).sentence}")
    folder = arguments.out or OUT / f"{scenario.name}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    save(folder, tables, found)
    print(f"\nTables of the run on Flink: {folder}")


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; 2 if it is refused."""
    parser = argparse.ArgumentParser(prog="run.sh", description="a scenario on a real Flink")
    parser.add_argument("scenario", type=Path, help="file of the scenario")
    parser.add_argument("--flink", default="1.20", help="1.20 (default), 2, or a version")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dump", type=Path, help="write the REST polls of the last phase here")
    parser.add_argument("--out", type=Path, help="folder of the tables")
    parser.add_argument("--as-stated", action="store_true", help="keep the scenario's round_ms")
    try:
        run(parser.parse_args(arguments))
    except FlowControlError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
