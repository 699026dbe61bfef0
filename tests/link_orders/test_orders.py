"""Orders of every type through a link into a slow sink while everything goes wrong: each row once.

The small form of bench/orders.py, with its modules. ``FLOWCONTROL_SEED`` repeats the plan of a run,
though not its timing.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowcontrol import Link
from jvm import java_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

ROWS, FILES = 3_120, 26
"""Each half has so many source batches: a sender that lives for one of them commits often enough to
write a checkpoint of the ledger."""

FAULTS = {"up": [(0.05, 0.15)], "down": [(0.2, 0.35)], "throw": [(0.1, 0.3), (0.6, 0.8)]}


def test_orders_arrive_once_and_unchanged_whatever_goes_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    import orders_figures as figures
    import orders_rows
    from orders_faults import Run, Settings

    seed = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
    print(f"\nFLOWCONTROL_SEED={seed}, {tmp_path}", flush=True)
    for name, first, end in (("orders", 0, ROWS // 2), ("later", ROWS // 2, ROWS)):
        (tmp_path / name).mkdir()
        orders_rows.write_files(
            spark, tmp_path / name, first, end, FILES, with_coupon=name == "later"
        )
    # So few buffers that the sender waits, commits often and trims.
    settings = Settings(ROWS, rate=1500, target_s=0.5, channels=4, seed=seed, spans=FAULTS)
    Link(
        tmp_path / "link", "id", 4, exclusive_buffers=1, floating_buffers=12, buffer_bytes="16 KiB"
    )
    Run(tmp_path, settings, java_environment()).run()

    found = figures.faults(tmp_path)
    print(found, flush=True)
    assert min(found["in_batch"].values()) >= 1  # of each application
    assert [note["when"] for note in found["threw"]] == ["before", "after"]
    assert len(found["columns"]) >= 1
    assert 0 < found["killed"][-1]["trimmed"] < found["end"]["trimmed"]
    assert found["end"]["checkpoint"] is not None
    rows = orders_rows.sink_rows(spark, tmp_path / "sink")
    assert rows.where(f"id < {ROWS // 2} AND coupon IS NULL").count() == ROWS // 2
    assert rows.where(f"id >= {ROWS // 2} AND coupon IS NOT NULL").count() == ROWS // 2 * 3 // 4
    wrong = orders_rows.differences(spark, tmp_path / "sink", ROWS)
    assert wrong == {"missing": 0, "doubled": 0, "changed": 0}
    orders_rows.assert_equal(spark, tmp_path / "sink", ROWS)
    begun = {note["batch"]: 0 for note in found["threw"]}
    for note in figures.notes(tmp_path / "down.jsonl"):
        if note["what"] == "begin" and note["batch"] in begun:
            begun[note["batch"]] += 1
    assert min(begun.values()) >= 2  # each batch that threw ran again
