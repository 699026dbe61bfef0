"""``flowcontrol emulate`` on the live clock, without the start script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jvm import CHEAP

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.spark
@pytest.mark.slow
def test_a_plain_process_runs_and_says_only_what_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the start script's settings the JVM has nothing to say of its own."""
    for name in ("SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", CHEAP)  # Java notes that it has read it
    scenario = ROOT / "conf" / "experiment.yaml"
    run = subprocess.run(
        [sys.executable, "-m", "flowcontrol", "emulate", str(scenario), "--set", "duration_s=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    said = [line for line in run.stderr.splitlines() if "JDK_JAVA_OPTIONS" not in line]
    assert run.returncode == 0, run.stderr
    assert said[:2] == [
        "starting Spark, usually 4 to 10 s",
        "starting a query for each stage, usually 3 to 15 s until the first micro-batch is done",
    ]
    assert all("%  round " in line for line in said[2:]), run.stderr
    assert "report: " in run.stdout
    folder = tmp_path / "out" / "experiment-live"
    assert (folder / "report.html").exists()
    checkpoints = [path.name for path in (folder / "queries").rglob("*") if path.is_file()]
    assert "0" in checkpoints
    assert not [name for name in checkpoints if name.endswith(".crc")]
