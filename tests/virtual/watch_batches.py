"""Windows of Spark's: what a task shows after a round."""

from __future__ import annotations

from typing import Any

from modules import load

random_batches: Any = load("tests/job/random_batches.py")
