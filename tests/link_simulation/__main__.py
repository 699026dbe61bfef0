"""Run seeded histories of a link: ``python -m tests.link_simulation --histories 10000 --seed 1``.

Prints what the histories met, and the seeds that fail; ``--trace`` prints the calls of one history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from .install import installed
from .running import run_many, run_one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.link_simulation", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="run one, and print its calls")
    args = parser.parse_args()
    began = time.perf_counter()
    if args.trace:
        with installed():
            met, error, trace = run_one(args.seed, is_traced=True)
        print("\n".join(trace), error or "nothing is wrong", dict(met), sep="\n")
        return 1 if error else 0
    met, failed = run_many(args.seed, args.histories, args.processes)
    seconds = time.perf_counter() - began
    a_minute = 60 * args.histories / seconds
    print(f"{args.histories} histories in {seconds:.0f} s, {a_minute:.0f} a minute")
    print(*(f"  {what}: {count}" for what, count in sorted(met.items())), sep="\n")
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
