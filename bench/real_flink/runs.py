"""The runs that Flink and the emulation make: each job of ``jobs/`` under each kind of barrier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

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

JOBS = ("chain", "exchange", "even-exchange", "slow-map", "close-chain", "local-chain")
ALIGNED_ONLY = {"slow-map", "close-chain"}
"""Jobs that show something about aligned barriers, and nothing new about others."""

WARM_UP_S = 10.0
"""Checkpoints triggered before this are left out: buffers fill, and the JVM compiles."""

RECORD_OVERHEAD_BYTES = 17
"""Of a byte array in a buffer: 4 length, 1 tag, 8 timestamp, 4 length of the array."""


class RunName(NamedTuple):
    """A job under a mode."""

    job: str
    mode: str

    def __str__(self) -> str:
        return f"{self.job}-{self.mode}"


RUNS = tuple(
    RunName(job, mode)
    for job in JOBS
    for mode in MODES
    if mode == "aligned" or job not in ALIGNED_ONLY
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


def flink_job(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``Runner`` reads: the same scenario, its rates spelled out by subtask."""
    stages = []
    for stage in stated["stages"]:
        rate = stage.get("emit_rate", stage.get("service_rate"))
        rates = rate if isinstance(rate, list) else [rate] * stage.get("parallelism", 1)
        stages.append({"name": stage["name"], "rates": rates})
    first = stated["stages"][0]
    stages[0]["payload_bytes"] = first["record_bytes"] - RECORD_OVERHEAD_BYTES
    options = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in stated["options"].items()
    }
    return {
        **stated["cluster"],
        "duration_s": stated["duration_s"],
        "options": options,
        "stages": stages,
    }
