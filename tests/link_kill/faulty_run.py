"""Many faults in one piece: ``faulty_run.py FOLDER FAULTS SEED [KIND ...]``.

With kinds only these. Started in a mount namespace of its own where that is allowed, so that no
file system is left behind.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from faulty_kinds import KINDS
from faulty_pipeline import Pipeline

AT_ONCE = 5
"""Most faults that come together."""

QUIET_EVERY = 5
"""Rounds between two times at which everything is mended, and all rows must have arrived."""


def main() -> None:
    """Run all faults; end with status 0 if no row was lost, doubled or changed."""
    folder, wanted, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    kinds = sys.argv[4:] or list(KINDS)
    pipeline = Pipeline(folder, seed)
    met: Counter[str] = Counter()
    most = 0
    try:
        pipeline.begin()
        rounds = 0
        while met.total() < wanted:
            rounds += 1
            together = strike(pipeline, kinds, met, min(wanted - met.total(), AT_ONCE))
            most = max(most, len(together))
            pipeline.say(f"{met.total()} of {wanted}: {', '.join(together)}")
            pipeline.run(pipeline.chance.uniform(0.2, 1.2))
            if pipeline.chance.random() < 0.6:
                pipeline.wake()
            if pipeline.chance.random() < 0.6:
                pipeline.mend()
            if pipeline.chance.random() < 0.6:
                pipeline.remove_retired()
            if rounds % QUIET_EVERY == 0:
                pipeline.settle()
        pipeline.settle()
    except BaseException:
        print("\n".join(pipeline.notes[-40:]), flush=True)
        report(pipeline, kinds, met, most)
        raise
    finally:
        pipeline.close()
    report(pipeline, kinds, met, most)
    assert not pipeline.raw, "errors of libraries reached the user"


def strike(pipeline: Pipeline, wanted: list[str], met: Counter[str], most: int) -> list[str]:
    """Let some faults come together; return their kinds."""
    chance, found = pipeline.chance, list[str]()
    for _ in range(chance.randint(1, most)):
        rare = min(met[kind] for kind in wanted)
        kinds = [kind for kind in wanted if met[kind] == rare or chance.random() < 0.3]
        chance.shuffle(kinds)
        for kind in kinds:
            if KINDS[kind](pipeline):
                met[kind] += 1
                found.append(kind)
                break
        pipeline.run(chance.choice([0.0, 0.05, 0.3]))
    return found


def report(pipeline: Pipeline, kinds: list[str], met: Counter[str], most: int) -> None:
    """Print what was met, and what was raised."""
    for (kind, side, text), count in pipeline.errors.most_common():
        pipeline.say(f"{count:4} x {kind} of a {side}: {text}")
    for text, count in pipeline.raw.most_common():
        pipeline.say(f"{count} x an error of a library:\n{text}\n")
    pipeline.say(f"{pipeline.restarts} restarts, {pipeline.conflicts} conflicts, {most} at once")
    print("faults " + ", ".join(f"{kind}: {met[kind]}" for kind in kinds), flush=True)
    print(f"total {met.total()} faults, {pipeline.checked} rows checked", flush=True)


if __name__ == "__main__":
    main()
