"""Dumps of Flink's REST API of jobs of different shapes, each as it is and changed twice.

    python bench/real_flink/dumps.py OUT [SHAPE | SHAPE.CHANGE ...]

``OUT/<shape>.json.gz`` is the job of ``shapes/<shape>.yaml``; ``OUT/<shape>.<change>.json.gz`` is
the same with a change of `CHANGES`. The tests of ``flowcontrol calibrate`` fit the first and
predict the others.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flink_run import HERE, FlinkRun, undisturbed
from translate import flink_job

from flowcontrol.scenario.given import as_scenario

SHAPES = HERE / "shapes"
DUMPS = HERE / "dumps"
SETTLED_S = 12.0
"""From then on the polls of a run are kept: buffers are full, and the JVM has compiled."""

EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
MOST = "taskmanager.network.memory.max-buffers-per-channel"

SINK_RATES: Mapping[str, tuple[str, float]] = {
    "slow-sink": ("sink", 350),
    "slow-map": ("sink", 260),
    "skewed-hash": ("workers", 210),
    "fan-in": ("sink", 475),
    "fan-out": ("store", 280),
    "source-limited": ("sink", 500),
    "with-checkpoints": ("sink", 165),
    "near-and-far": ("sink", 500),
}
"""The sink of each shape that is made slower by half, and its new rate."""


def changes(shape: str) -> dict[str, dict[str, Any]]:
    """Return what is changed in a shape: overrides of its scenario by the name of the change."""
    sink, rate = SINK_RATES[shape]
    options = as_scenario(SHAPES / f"{shape}.yaml").options
    doubled = {
        EXCLUSIVE: 2 * options.exclusive_buffers,
        FLOATING: 2 * options.floating_buffers,
        MOST: 2 * options.max_buffers_per_channel,
    }
    return {
        "slower-sink": {f"stages.{sink}.service_rate": rate},
        "more-buffers": {f'options."{key}"': value for key, value in doubled.items()},
    }


UNREAD = {"plan", "status-counts", "tasks", "status-duration", "aggregated"}
"""Parts of the bodies of jobs and vertices that repeat others; ``/jobs/<id>/plan`` is kept."""


def slim(poll: Mapping[str, Any]) -> dict[str, Any]:
    """Return a poll without what nobody reads; the bodies keep REST's shape."""
    return {path: body if path.endswith("/plan") else _slim(body) for path, body in poll.items()}


def _slim(body: Any) -> Any:
    if isinstance(body, Mapping):
        return {key: _slim(value) for key, value in body.items() if key not in UNREAD}
    return [_slim(value) for value in body] if isinstance(body, list) else body


def write_dump(path: Path, run: FlinkRun, since_s: float) -> None:
    """Write the polls of a run from a moment on, in the form of ``flowcontrol calibrate``.

    What does not change is in the first poll, and checkpoints are in the last. A name that ends in
    .gz is compressed.
    """
    [job] = {path for path in run.polls[0] if path.count("/") == 2 and path.startswith("/jobs/")}
    kept = [poll for poll in run.polls if poll[job]["now"] >= run.start_ms + 1000 * since_s]
    first = {key: body for key, body in run.polls[0].items() if key not in kept[0]}
    polls = [slim(poll) for poll in (first | kept[0], *kept[1:])]
    text = json.dumps({"polls": polls}, separators=(",", ":"))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Make the dumps that are named, or all."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    version = "1.20.1"
    for shape in SINK_RATES:
        for change, overrides in {"": {}, **changes(shape)}.items():
            name = f"{shape}.{change}" if change else shape
            if arguments[1:] and not {shape, name} & set(arguments[1:]):
                continue
            scenario = as_scenario(SHAPES / f"{shape}.yaml", overrides)
            print(f"Flink runs {name}", flush=True)
            run = undisturbed(flink_job(scenario), version, scenario.duration_s)
            write_dump(out / f"{name}.json.gz", run, SETTLED_S)


if __name__ == "__main__":
    main(sys.argv[1:])
