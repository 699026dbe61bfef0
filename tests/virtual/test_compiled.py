"""The kernel compiled, interpreted by numba's own switch, and without numba: one result."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from flowcontrol.kernel.compiled import is_compiled
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONF = ROOT / "conf"
NETMEM = "taskmanager.network.memory."

pytestmark = pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")


def stage(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "record_bytes": 700, **keys}


RANDOM: dict[str, Any] = {
    "schema": 1,
    "name": "random-times",
    "duration_s": 1.5,
    "round_ms": 1.3,
    "sample_interval_s": 0.1,
    "seed": 1 << 62,
    "cluster": {
        "task_managers": 3, "network_latency_ms": 4, "bandwidth_bytes_per_s": 6_000_000,
    },
    "options": {
        "taskmanager.memory.segment-size": "4kb",
        NETMEM + "buffers-per-channel": 1,
        NETMEM + "floating-buffers-per-gate": 3,
        NETMEM + "max-buffers-per-channel": 4,
        NETMEM + "buffer-debloat.enabled": True,
        NETMEM + "buffer-debloat.period": "20ms",
        NETMEM + "buffer-debloat.target": "50ms",
    },
    "stages": [
        stage("poisson", emit_rate=2000, parallelism=2, service_time="exponential"),
        stage("map", service_rate=900, parallelism=3, selectivity=1.5, record_bytes=5000,
              service_time="lognormal", service_time_cv=0.7),
        stage("sink", service_rate=[700, 5000], parallelism=2, service_time="exponential",
              stalls=[{"at_s": 0.4, "for_s": 0.2, "subtasks": [0]}]),
        stage("copy", parallelism=2),
        stage("steady", emit_rate=500, parallelism=2),
        stage("parse", service_rate=400, parallelism=2, selectivity=0.5),
    ],
    "edges": [
        {"from": "poisson", "to": "map", "partitioner": "shuffle"},
        {"from": "map", "to": "sink", "partitioner": "hash",
         "key_weights": {"a": 65_537, "b": 70_001, "c": 12}},
        {"from": "map", "to": "copy", "partitioner": "broadcast"},
        {"from": "steady", "to": "parse", "partitioner": "forward", "chain": True},
        {"from": "parse", "to": "sink", "partitioner": "rebalance"},
    ],
}  # fmt: skip
"""Everything that is drawn, slow connections, buffers that change their size, a chain, and shares
that are too many for a table."""


def shortened(name: str, duration_s: float) -> dict[str, Any]:
    return {**yaml.safe_load((CONF / f"{name}.yaml").read_text()), "duration_s": duration_s}


def scenarios() -> Mapping[str, dict[str, Any]]:
    fine = copy.deepcopy(RANDOM)
    fine.update(name="fine", round_ms=0.05, duration_s=0.1, sample_interval_s=0.013)
    fine["options"][NETMEM + "buffers-per-channel"] = 0
    old = copy.deepcopy(RANDOM)
    old.update(
        name="old", duration_s=0.8, system={"transport": {"name": "tcp", "kernel_bytes": 20_000}}
    )
    old["options"] = {k: v for k, v in old["options"].items() if "debloat" not in k}
    checkpoints = copy.deepcopy(RANDOM)
    checkpoints["name"] = "checkpoints"
    checkpoints["options"] |= {
        "execution.checkpointing.interval": "100ms",
        "execution.checkpointing.timeout": "150ms",
        "execution.checkpointing.tolerable-failed-checkpoints": 1000,
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.aligned-checkpoint-timeout": "30ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 5,
        "restart-strategy.fixed-delay.delay": "50ms",
    }
    checkpoints["failures"] = [
        {"at_s": 0.5, "stage": "map", "subtask": 1},
        {"at_s": 1, "task_manager": 2},
    ]
    return {
        "checkpoints": checkpoints,
        "old": old,
        "head-of-line": shortened("head-of-line", 16),
        "random-times": RANDOM,
        "fine": fine,
        "skew": shortened("skew", 25),
        "three-stages": shortened("three-stages", 25),
    }


COVERED = ("head-of-line", "random-times")
"""Left out of the quick form: "old" has the connections of one, "checkpoints" all of the other."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("scenarios")
    for name, scenario in scenarios().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(scenario))
    return sorted(folder.iterdir())


def read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


@pytest.mark.parametrize(
    ("switches", "environment"), [((), {"NUMBA_DISABLE_JIT": "1"}), (("--without-numba",), {})]
)
def test_compiled_is_interpreted(
    files: list[Path], tmp_path: Path, switches: tuple[str, ...], environment: dict[str, str]
) -> None:
    chosen = files
    if "FLOWCONTROL_LONG" not in os.environ:
        # One is enough to show that numba need not be there.
        chosen = files[1:2] if switches else [path for path in files if path.stem not in COVERED]
    command = [sys.executable, str(HERE / "interpreted.py"), *switches, str(tmp_path)]
    subprocess.run(
        [*command, *map(str, chosen)], check=True, cwd=ROOT, env={**os.environ, **environment}
    )
    for path in chosen:
        compiled = simulate(load_scenario(path))
        assert compiled.transfers > 0
        for name, table in compiled.tables.items():
            other = read(tmp_path / f"{path.stem}-{name}.arrow")
            assert len(table) > 0, (path.stem, name)
            assert table.schema == other.schema
            for column in table.column_names:
                assert table[column].equals(other[column]), (path.stem, name, column)
