"""What bench/orders.py makes of its notes, on notes made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def write(path: Path, *notes: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(note) + "\n" for note in notes))


def batch(number: int, at: float, seconds: float, rows: int = 100) -> list[dict[str, Any]]:
    """Return the notes of a batch of the sink that ends at a moment."""
    parts = {"triggerExecution": seconds, "addBatch": seconds - 0.2, "walCommit": 0.1}
    own = {"batch": number}
    return [
        {"what": "begin", "at": at - seconds, "batch": number},
        {"what": "end", "at": at - 0.2, "rows": rows, **own},
        {"what": "batch", "at": at, "seconds": seconds, "load": 3.2, "parts": parts, **own},
    ]


def test_the_first_ten_batches_of_each_start_do_not_count(tmp_path: Path) -> None:
    import orders_figures as figures

    notes = [{"what": "start", "at": 0.0}]
    for number in range(12):
        notes += batch(number, 10.0 * (number + 1), 2.0)
    notes.append({"what": "start", "at": 200.0})
    for number in range(12, 23):
        notes += batch(number, 10.0 * number + 100.0, 5.0, rows=1000)
    write(tmp_path / "down.jsonl", *notes)
    found = figures.batches(tmp_path)
    assert len(found) == 23
    assert [one.number for one in figures.warm(found)] == [10, 11, 22]
    assert figures.rate_in_batches(figures.warm(found)) == pytest.approx(1200 / 9)
    assert figures.rate_by_the_clock(found) == pytest.approx(1200 / 30)
    assert figures.load(found).startswith("load 3.2 (median) on ")
    assert found[0].sink_s == pytest.approx(1.8)
    assert figures.sizes_for_alone(found, 5) == [100, 100, 1000, 100, 100]
    assert "23 batches: median 1.00, longest 2.50 times the target of 2 s; 11 above" in (
        figures.summary(found, 2.0, 1.2)
    )
    write(tmp_path / "run.jsonl", {"what": "started", "role": "up-wide", "at": 314.0})
    assert figures.why(found[-1], tmp_path) == (
        "4.80 s in the sink, 0.20 s outside, 0.10 s walCommit, load 3; "
        "up-wide had just been started"
    )


def test_the_sink_alone_is_measured_after_its_first_ten_batches(tmp_path: Path) -> None:
    import orders_figures as figures

    notes = []
    for number in range(15):
        notes += batch(number, 2.0 * number + 2.0, 2.0)[:2]
    write(tmp_path / "alone.jsonl", *notes)
    assert figures.rate_alone(tmp_path) == pytest.approx(500 / (29.8 - 20.0))


def test_a_kill_in_mid_batch_is_told_from_one_between_two(tmp_path: Path) -> None:
    from orders_faults import Follower

    path = tmp_path / "down.jsonl"
    follower = Follower(path)
    assert not follower.look()
    notes = [{"what": "start"}, {"what": "begin", "batch": 0}]
    write(path, *notes)
    assert follower.look()
    assert follower.is_in_batch
    notes += [{"what": "end", "batch": 0, "rows": 7}]
    write(path, *notes)
    follower.look()
    assert not follower.is_in_batch
    assert follower.rows == {0: 7}
    with path.open("a") as file:
        file.write('{"what": "begin", "ba')  # it is just being written
    follower.look()
    assert not follower.is_in_batch
    assert not follower.look()
