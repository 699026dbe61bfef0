"""The runs that Flink and the emulation make: each job of ``jobs/`` under each kind of barrier."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import translate
import yaml

from flowcontrol.scenario import parse_scenario

HERE = Path(__file__).resolve().parent

UNALIGNED = "execution.checkpointing.unaligned.enabled"
TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {UNALIGNED: True},
    "timeout": {UNALIGNED: True, TIMEOUT: "300ms"},
    "late-timeout": {UNALIGNED: True, TIMEOUT: "1s"},
}
"""Options of each mode. At 300 ms the barrier still stands in the sender's queue, at 1 s behind
data in the receiver's, which has announced it."""

JOBS = ("chain", "exchange", "even-exchange", "slow-map", "close-chain", "local-chain", "fan")
ONE_MODE = {"slow-map": "aligned", "close-chain": "aligned", "fan": "late-timeout"}
"""Jobs that show something under one mode, and nothing new under others."""

WARM_UP_S = 10.0
"""Checkpoints triggered before this are left out: buffers fill, and the JVM compiles."""


class RunName(NamedTuple):
    """A job under a mode."""

    job: str
    mode: str

    def __str__(self) -> str:
        return f"{self.job}-{self.mode}"


RUNS = tuple(
    RunName(job, mode) for job in JOBS for mode in MODES if ONE_MODE.get(job, mode) == mode
)


def chosen(names: list[str]) -> list[RunName]:
    """Return the runs whose job, mode or whole name is one of ``names``; all if there are none.

    Raises
    ------
    SystemExit
        If a name is none of them.
    """
    known = {*JOBS, *MODES, *map(str, RUNS)}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"no run, job or mode is named {unknown[0]}; there are: {sorted(known)}")
    return [run for run in RUNS if not names or {str(run), *run} & set(names)]


def scenario(run: RunName) -> dict[str, Any]:
    """Return the scenario of a run, as a mapping that `flowcontrol.emulate` reads."""
    with (HERE / "jobs" / f"{run.job}.yaml").open(encoding="utf-8") as file:
        job: dict[str, Any] = yaml.safe_load(file)
    return {**job, "name": str(run), "options": {**job["options"], **MODES[run.mode]}}


def flink_job(run: RunName) -> dict[str, Any]:
    """Return what ``Runner`` reads: the job of the scenario, and how long it runs."""
    stated = parse_scenario(scenario(run))
    return {**translate.flink_job(stated), "duration_s": stated.duration_s}
