"""Lets the tests of this folder import bench/real_systems, and bench/real_flink that it uses."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "real_systems"), str(BENCH / "real_flink")]
