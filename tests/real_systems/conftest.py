"""Lets the tests of this folder import the modules of bench/real_systems."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "real_systems"))
