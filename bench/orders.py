"""Two million orders through a link into a slow sink, with everything going wrong on the way.

    ./spark-submit.sh --driver-memory 4g bench/orders.py [--rows 2000000] [--rate 4000] [--seed N]

Two applications, each a Spark of its own: one sends orders (structs, arrays, maps, decimals, both
timestamps, dates, bytes, nulls), the other hands them to a sink that writes them into a table and
then waits as long as ``rate`` rows a second take. Each is killed twice with SIGKILL in the middle
of a batch and started again; half way the orders get a new column; the sink throws twice, once
before and once after it wrote its rows. Afterwards each value in the sink's table is compared with
what the orders were made of. Then the sink alone takes the same rows in batches of the same sizes:
what it can do.

A micro-batch of that sink costs 1.1 s without any rows, as it reads its rows twice and commits to
a table, and each tenth one 0.6 s more, as Delta writes a checkpoint of its log. A target of 5 s
leaves room for both; one of 2 s does not.

Printed: rows missing, doubled and changed; how long micro-batches took beside their target after
the first ten of each start, and what the longest ones waited for; rows a second beside what the
sink can do. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import orders_figures as figures
import orders_rows
from orders_faults import Application, Run, Settings
from orders_members import session

TIME_GOAL, RATE_GOAL = 1.2, 0.8
FILES = 40
"""Source batches."""

ALONE_BATCHES = 60
"""Batches that the sink takes alone, the first ten of which do not count."""


def main() -> int:
    """Run the benchmark; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument(
        "--rate", type=float, default=4_000, help="rows/s of the sink, beside its table"
    )
    parser.add_argument("--target", type=float, default=5.0, help="seconds of a micro-batch")
    parser.add_argument("--seed", type=int, help="of the faults (default: drawn, and printed)")
    parser.add_argument(
        "--every", type=int, default=1,
        help="chispa compares one of so many orders; Spark compares all of them anyway",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, help="empty folder for everything; it stays")
    given = parser.parse_args()
    base = given.keep or Path(tempfile.mkdtemp(prefix="bench-orders-"))
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    try:
        settings = Settings(given.rows, given.rate, given.target, seed=seed)
        return measure(base, settings, given.every)
    finally:
        if given.keep is None:
            shutil.rmtree(base, ignore_errors=True)


def measure(base: Path, settings: Settings, every: int) -> int:
    """Run the whole in a folder, print what happened; 1 if a goal is missed."""
    print(f"{settings.rows:,} orders, seed {settings.seed}", flush=True)
    spark = session("orders")
    half = settings.rows // 2
    for name, first, end in (("orders", 0, half), ("later", half, settings.rows)):
        (base / name).mkdir(parents=True)
        late = name == "later"
        orders_rows.write_files(spark, base / name, first, end, FILES // 2, with_coupon=late)
    began = time.monotonic()
    Run(base, settings).run()
    took = time.monotonic() - began
    print(f"all in the sink after {took:.0f} s, starts included", flush=True)
    print_faults(base)
    wrong = orders_rows.differences(spark, base / "sink", settings.rows)
    print("rows " + ", ".join(f"{name}: {count}" for name, count in wrong.items()), flush=True)
    compared = orders_rows.assert_equal(spark, base / "sink", settings.rows, every=every)
    print(f"chispa: every value of {compared:,} orders is equal", flush=True)
    spark.stop()
    found = figures.batches(base)
    if not figures.warm(found):
        print("too few batches for figures: more --rows, a smaller --rate or --target")
        return 1
    alone(base, settings, found)
    met = print_figures(base, settings, found)
    return 0 if met and not any(wrong.values()) else 1


def alone(base: Path, settings: Settings, found: list[figures.Batch]) -> None:
    """Let the sink take the same rows without a link."""
    sizes = figures.sizes_for_alone(found, ALONE_BATCHES)
    (base / "sizes.json").write_text(json.dumps(sizes))
    application = Application(base, "alone", settings.arguments, {})
    try:
        while not application.has_ended():
            time.sleep(0.2)
    finally:
        application.kill()


def print_faults(base: Path) -> None:
    """Print what went wrong, in its order."""
    found = figures.faults(base)
    for note in found["killed"]:
        hit = "in mid-batch" if note["in_batch"] else "between two batches"
        print(
            f"  {note['who']} killed {hit}; {note['trimmed']:,} of {note['sent']:,} rows trimmed, "
            f"ledger's checkpoint {note['checkpoint']}"
        )
    for note in found["threw"]:
        print(f"  the sink threw at batch {note['batch']}, {note['when']} it wrote")
    end = found["end"]
    print(f"  {len(found['columns'])} stop for new columns, {found['starts']} starts of its query")
    print(f"  {end['trimmed']:,} rows trimmed in the end, checkpoint {end['checkpoint']}")


def print_figures(base: Path, settings: Settings, found: list[figures.Batch]) -> bool:
    """Print batches and rows a second; whether both goals are met."""
    warm, target_s = figures.warm(found), settings.target_s
    after = figures.WARM_BATCHES
    print(f"after the first {after} of each start, {figures.summary(warm, target_s, TIME_GOAL)}")
    print(f"after the first {after} of all, {figures.summary(found[after:], target_s, TIME_GOAL)}")
    print(figures.load(found))
    over = [batch for batch in warm if batch.seconds > TIME_GOAL * target_s]
    for batch in over:
        print(f"  batch {batch.number}, {batch.rows:,} rows, {batch.seconds:.2f} s: ", end="")
        print(figures.why(batch, base))
    can = figures.rate_alone(base)
    inside, clock = figures.rate_in_batches(warm), figures.rate_by_the_clock(found)
    print(f"the sink alone, batches of the same sizes: {can:,.0f} rows/s")
    print(f"behind the link: {inside:,.0f} rows/s in batches, {inside / can:.0%}; by the clock, ")
    print(f"with the waits for a sender that was killed, {clock:,.0f}, {clock / can:.0%}", end=" ")
    print(f"(goal: {RATE_GOAL:.0%})")
    return not over and clock >= RATE_GOAL * can


if __name__ == "__main__":
    sys.exit(main())
