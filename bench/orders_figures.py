"""What the notes of a run of bench/orders.py say: how long batches took, rows a second, faults."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

WARM_BATCHES = 10
"""First batches of a start, in which a JVM compiles and the link learns what its sink takes."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch of the receiver.

    Attributes
    ----------
    start, place : int
        Which start of the query, and which batch of it.
    number : int
        Spark's.
    rows : int
        Its rows.
    seconds : float
        Of its trigger.
    sink_s : float
        Of these, in the sink.
    at : float
        When it had ended, s.
    load : float
        The machine's load then: processes that run or wait for a core, mean of a minute.
    parts : dict of str to float
        What Spark says of the trigger, s.
    """

    start: int
    place: int
    number: int
    rows: int
    seconds: float
    sink_s: float
    at: float
    load: float
    parts: dict[str, float]


def notes(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the notes of an application."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)


def batches(base: Path) -> list[Batch]:
    """Return the receiver's micro-batches that ended."""
    found, start, place = list[Batch](), -1, 0
    began: dict[int, float] = {}
    sink: dict[int, tuple[float, int]] = {}
    for note in notes(base / "down.jsonl"):
        if note["what"] == "start":
            start, place = start + 1, 0
        elif note["what"] == "begin":
            began[note["batch"]] = note["at"]
        elif note["what"] == "end":
            sink[note["batch"]] = note["at"] - began[note["batch"]], note["rows"]
        elif note["what"] == "batch":
            number = note["batch"]
            sink_s, rows = sink[number]
            told = note["seconds"], sink_s, note["at"], note["load"], note["parts"]
            found.append(Batch(start, place, number, rows, *told))
            place += 1
    return found


def warm(found: list[Batch]) -> list[Batch]:
    """Return the batches after the first ten of each start."""
    return [batch for batch in found if batch.place >= WARM_BATCHES]


def rate_in_batches(found: list[Batch]) -> float:
    """Return rows a second of the time that batches took."""
    return sum(batch.rows for batch in found) / max(1e-9, sum(batch.seconds for batch in found))


def rate_by_the_clock(found: list[Batch]) -> float:
    """Return rows a second from the first ten batches of each start on, waits included."""
    rows = seconds = 0.0
    for before, batch in pairwise(found):
        if batch.start == before.start and batch.place >= WARM_BATCHES:
            rows, seconds = rows + batch.rows, seconds + batch.at - before.at
    return rows / max(1e-9, seconds)


def rate_alone(base: Path) -> float:
    """Return rows a second of the sink alone, after its first ten batches."""
    own = list(notes(base / "alone.jsonl"))
    ends = [note for note in own if note["what"] == "end"][WARM_BATCHES:]
    begins = [note for note in own if note["what"] == "begin"][WARM_BATCHES:]
    return sum(note["rows"] for note in ends) / (ends[-1]["at"] - begins[0]["at"])


def sizes_for_alone(found: list[Batch], most: int) -> list[int]:
    """Return rows of as many batches, ten of them to warm up, as the link made them."""
    sizes = [batch.rows for batch in warm(found)]
    return [*sizes[:WARM_BATCHES], *sizes][:most]


def faults(base: Path) -> dict[str, Any]:
    """Return what went wrong, and how far the link was then."""
    own, down = list(notes(base / "run.jsonl")), list(notes(base / "down.jsonl"))
    killed = [note for note in own if note["what"] == "killed"]
    return {
        "seed": next(note["seed"] for note in own if note["what"] == "run"),
        "killed": killed,
        "in_batch": {
            who: sum(note["in_batch"] for note in killed if note["who"] == who)
            for who in ("up", "down")
        },
        "threw": [note for note in down if note["what"] == "threw"],
        "columns": [note for note in down if note["what"] == "columns"],
        "starts": sum(note["what"] == "start" for note in down),
        "end": next(note for note in own if note["what"] == "done"),
    }


def why(batch: Batch, base: Path) -> str:
    """Return what stands out in a batch that took long: where its time went, and who began."""
    outside = batch.seconds - batch.sink_s
    begun = [
        note["role"] for note in notes(base / "run.jsonl")
        if note["what"] == "started" and -batch.seconds < batch.at - batch.seconds - note["at"] < 15
    ]  # fmt: skip
    most = max((p for p in batch.parts.items() if p[0] not in ("triggerExecution", "addBatch")),
               key=lambda part: part[1])  # fmt: skip
    text = f"{batch.sink_s:.2f} s in the sink, {outside:.2f} s outside, {most[1]:.2f} s {most[0]}, "
    text += f"load {batch.load:.0f}"
    return text + (f"; {' and '.join(begun)} had just been started" if begun else "")


def summary(found: list[Batch], target_s: float, goal: float) -> str:
    """Return a line on how long batches took beside their target."""
    times = sorted(batch.seconds / target_s for batch in found)
    over = sum(one > goal for one in times)
    return (
        f"{len(times)} batches: median {statistics.median(times):.2f}, longest {times[-1]:.2f} "
        f"times the target of {target_s:g} s; {over} above {goal:g} times"
    )


def load(found: list[Batch]) -> str:
    """Return the machine's load while batches ran, beside its cores."""
    loads = [batch.load for batch in found]
    return f"load {statistics.median(loads):.1f} (median) on {os.cpu_count()} cores"
