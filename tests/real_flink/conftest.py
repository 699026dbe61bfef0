"""Lets the tests of this folder import the modules of bench/real_flink, which import each other."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "real_flink"), str(BENCH)]
