"""What a ledger's commit and look-up cost as it ages: no Spark, both sides of one link.

    python bench/ledger_age.py [--rounds 2000] [--channels 4]

Each round commits the sender's and the receiver's rows and reads the other side's, as lock-step
does. The peer is the same ledger when it was young: printed are medians by quarter, the files
that stand in the folder at the end of each, and the ratio of the last quarter to the first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measured import note

from flowcontrol.ledger.ledger import Ledger


def rows(side: str, channels: int, number: int) -> list[dict[str, object]]:
    """Return a round's rows of one side, with as much state as real ones have."""
    cursor = "sent" if side == "sender" else "consumed"
    return [
        {"sender": 0, "receiver": i, cursor: number, "channel_state": "x" * 200, "task_state": None}
        for i in range(channels)
    ]


def main() -> int:
    """Run the benchmark; 0 if the last quarter costs at most 1.25 times the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--channels", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as folder:
        path, took, files = Path(folder) / "ledger", [], []
        sides = [Ledger(path, side, "bench") for side in ("sender", "receiver")]
        for number in range(options.rounds):
            began = time.perf_counter()
            for ledger, other in zip(sides, ("receiver", "sender"), strict=True):
                ledger.refresh()
                if number:
                    ledger.rows(other, number - 1)
                ledger.commit(number, rows(ledger.side, options.channels, number))
            took.append(1000 * (time.perf_counter() - began))
            if (number + 1) % (options.rounds // 4) == 0:
                files.append(sum(1 for file in path.rglob("*") if file.is_file()))
    quarter = options.rounds // 4
    medians = [statistics.median(took[i * quarter : (i + 1) * quarter]) for i in range(4)]
    print("ms a round, both sides, by quarter:", ", ".join(f"{m:.1f}" for m in medians))
    print("files in the folder by quarter:    ", ", ".join(map(str, files)))
    print(f"last quarter / first: {medians[3] / medians[0]:.2f}")
    ratio, beside = medians[3] / medians[0], "the first quarter"
    what = f"the last quarter of {options.rounds:,} rounds"
    note(what, ratio, "times", beside=beside, goal=1.25, is_met="at most")
    return 0 if medians[3] <= 1.25 * medians[0] else 1


if __name__ == "__main__":
    sys.exit(main())
