"""Runs a scenario on a real system and emulates it: measured beside emulated.

    python bench/real_systems/run.py SYSTEM [SCENARIO ...] [--set KEY=VALUE] [--keep]

Without a scenario it runs all shapes of the system, ``shapes/SYSTEM/*.yaml``. ``--keep`` writes
what was measured into ``measured/``, a file a shape.
docs/explanation/real-systems.md says what is run and what differs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "real_flink"))

import pandas as pd
from figures import rows, show
from programs import HERE, PROGRAMS, Measured, Program, build, undisturbed
from stated import properties

import flowcontrol
from flowcontrol.errors import FlowControlError, Problem, ScenarioError
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_scenario

KEPT = HERE / "measured"


def emulated(scenario: Scenario) -> pd.DataFrame:
    """Run a scenario on the virtual clock; the counters of its stages by time, s."""
    with tempfile.TemporaryDirectory() as folder:
        run = flowcontrol.emulate(scenario, out=Path(folder) / "run", clock="virtual", quiet=True)
        stages = run.tables["stages"].to_pandas()
    columns = {}
    for name, own in stages.groupby("stage"):
        by_time = own.groupby("t_s")[["records_in", "records_out", "lag_records"]].sum()
        columns[f"{name}.in"] = by_time["records_in"]
        columns[f"{name}.out"] = by_time["records_out"]
        if by_time["lag_records"].any():
            columns["log"] = by_time["lag_records"]
    return pd.DataFrame(columns)


def check(program: Program, scenario: Scenario, path: Path, given: Sequence[str]) -> None:
    """Refuse a scenario of another system."""
    own = as_scenario(path, [*given, f"system={program.system}"])
    transports = (own.system.transport, *program.transports)
    if scenario.system.transport not in transports or (
        own.system.throttle != scenario.system.throttle
    ):
        text = f"{scenario.system.transport}, {scenario.system.throttle}: {program.folder} runs "
        text += f"{own.system.transport}, {own.system.throttle}; state system: {program.system}"
        raise ScenarioError([Problem("system", text)], scenario.name)


def keep(program: Program, scenario: Scenario, found: Measured) -> None:
    """Write what was measured: the counters and levels at each sample, and the events."""
    KEPT.mkdir(exist_ok=True)
    samples = found.samples.round(3)
    kept = {
        "system": program.folder,
        "version": found.version,
        "date": datetime.date.today().isoformat(),
        "late_ms": found.late_ms,
        "latest_ms": found.latest_ms,
        "t": [round(float(at), 3) for at in samples.index],
        **{name: [*map(_whole, samples[name])] for name in samples.columns},
        "events": found.events,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items()]
    path = KEPT / f"{program.folder}-{scenario.name}.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _whole(value: float) -> float:
    return int(value) if value == int(value) else float(value)


def run(program: Program, path: Path, given: Sequence[str], *, is_kept: bool) -> None:
    """Run and compare one scenario."""
    scenario = as_scenario(path, given)
    check(program, scenario, path, given)
    job = dict(properties(scenario))
    print(f"{program.folder} runs {scenario.name} for {scenario.duration_s:g} s", flush=True)
    found = undisturbed(program, job)
    if is_kept:
        keep(program, scenario, found)
    print(show(rows(scenario, found.samples, emulated(scenario))), f"({found.version})")


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; 2 if it is refused."""
    parser = argparse.ArgumentParser(prog="run.sh", description="a scenario on a real system")
    parser.add_argument("system", choices=sorted(PROGRAMS))
    parser.add_argument("scenarios", type=Path, nargs="*", help="files; all shapes without")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--keep", action="store_true", help="keep what was measured")
    options = parser.parse_args(arguments)
    program = PROGRAMS[options.system]
    shapes = options.scenarios or sorted((HERE / "shapes" / program.folder).glob("*.yaml"))
    try:
        build(program)
        for path in shapes:
            run(program, path, options.set, is_kept=options.keep)
    except FlowControlError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
