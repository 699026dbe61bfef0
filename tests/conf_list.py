"""The scenarios of conf/, and how the tests take each: a new file gets a row here."""

from __future__ import annotations

from pathlib import Path

CONF = Path(__file__).resolve().parents[1] / "conf"
NAMES = sorted(path.stem for path in CONF.glob("*.yaml"))

ROWS = {
    "burst": "blocks flink",
    "checkpoint-aligned": "blocks flink",
    "checkpoint-fails": "blocks flink",
    "checkpoint-timeout": "blocks flink",
    "checkpoint-unaligned": "blocks flink",
    "cpu-bound": "chosen",
    "daily-curve": "virtual",
    "ds2-word-count": "virtual",
    "dynamodb-throttled": "chosen flink",
    "experiment": "blocks",
    "fan-in": "blocks flink",
    "first": "chosen flink",
    "flights": "blocks",
    "flights-windows": "timed",
    "gc-pause": "blocks flink",
    "head-of-line": "chosen",
    "http-enrichment": "chosen flink",
    "iceberg-commits": "chosen",
    "idle-source": "timed flink",
    "jdbc-nightly": "chosen",
    "kafka-questions": "fine flink",
    "kafka-source": "blocks flink",
    "kafka-slow-broker": "chosen",
    "kafka-transactions": "fails fine",
    "late-data": "timed flink",
    "oscillation": "blocks flink",
    "partition-types": "fine chosen",
    "payments": "virtual",
    "recovery": "fails flink",
    "shared-producer": "chosen",
    "siblings": "chosen",
    "skew": "blocks flink",
    "skewed-sources": "timed flink",
    "three-stages": "blocks flink",
    "two-jobs": "chosen flink",
    "two-phase-commit": "fails flink",
    "two-sites": "blocks",
    "watermark-lag": "timed flink",
    "window-burst": "timed flink",
    "word-count": "chosen flink",
}
"""What holds of each:

- blocks: both clocks run it; tests/virtual/test_tables.py and tests/live/test_virtual_agrees.py
  compare them, in a form that blocks within seconds
- virtual: the live clock refuses it (the parallelism changes, or too many channels)
- chosen: its windows suit the round that the virtual clock chooses, not one of the live clock
- fine: in rounds of 1 to 5 ms, thousands of micro-batches, so nobody would run it live
- timed: has event time
- fails: a task fails, in the round that the virtual clock chooses
- flink: a real Flink can run it
"""


def those(word: str) -> list[str]:
    """Return the names of the scenarios of which a word holds, in order."""
    return sorted(name for name, words in ROWS.items() if word in words.split())
