"""A link through Spark Connect, where foreachBatch runs in the server and not in the script."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jvm import java_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="pyspark[connect] is missing")
def test_a_link_through_spark_connect(tmp_path: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONHASHSEED": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(ROOT / "flowcontrol" / "spark" / "conf"),
        **java_environment(),
    }
    found = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "connect_client.py"), str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=3600,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr[-4000:]
    assert "stopped while it waited for credit" in found.stdout
    assert "rows: 500, distinct: 500" in found.stdout
