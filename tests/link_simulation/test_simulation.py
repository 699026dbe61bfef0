"""Seeded histories of a link: no row is lost, doubled or changed, and no credit is exceeded.

The quick form runs the same ones each time, ``--long`` a million of its own;
``FLOWCONTROL_HISTORIES`` says how many. A seed that fails prints how its history is seen.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from link_simulation.history import History
from link_simulation.install import installed
from link_simulation.mends import MENDS, Mend, taken_out
from link_simulation.running import run_many, run_one

IS_LONG = "FLOWCONTROL_LONG" in os.environ
HISTORIES = int(os.environ.get("FLOWCONTROL_HISTORIES", 1_000_000 if IS_LONG else 400))

FAULTS = (
    *("killed before", "killed after", "lost", "unanswered", "torn", "late", "twice"),
    *("frozen", "clock", "stopped", "listing with a hole", "much time passed"),
)
HARD = (
    "a zombie",
    "a process was fenced",
    "two queries on one checkpoint",
    "a batch was packed again into other files",
    "a commit was cleaned away",
    "a receiver joined",
    "a receiver was removed",
    "settings were altered",
    "an error with a message",
    "the storage's own error",
)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Receivers that begin in the middle log that; here many do."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def simulated(quiet) -> Iterator[None]:
    with installed():
        yield


def how_to_see(seed: int) -> str:
    return f"see python -m tests.link_simulation --trace --seed {seed}"


def test_no_row_is_lost_doubled_or_changed_whatever_happens(simulated) -> None:
    met: Counter[str] = Counter()
    for seed in range(min(HISTORIES, 400)):
        own, error, _ = run_one(seed)
        met += own
        assert not error, f"{how_to_see(seed)}\n{error}"
    print(dict(met))
    missing = [what for what in (*FAULTS, *HARD) if not met[what]]
    assert not missing, f"never met: {missing}"


@pytest.mark.long
@pytest.mark.slow
def test_a_million_histories(quiet) -> None:
    first = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32))) * 1000
    print(f"\n{HISTORIES} histories from seed {first} on", flush=True)
    met, failed = run_many(first, HISTORIES, os.cpu_count() or 1)
    print(dict(met))
    assert not failed, "\n".join(f"{how_to_see(seed)}\n{text}" for seed, text in failed.items())


SEEDS = Path(__file__).with_name("seeds.txt")


def seeds() -> list[int]:
    """Return the seeds that have failed once: a number a line, and what it had found."""
    lines = SEEDS.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def test_the_seeds_that_failed_once_fail_no_more(simulated) -> None:
    for seed in seeds():
        _, error, _ = run_one(seed)
        assert not error, f"{how_to_see(seed)}\n{error}"


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.fault)
def test_a_fault_of_the_past_is_found_when_its_mend_is_taken_out(simulated, mend: Mend) -> None:
    assert not run_one(mend.seed)[1]
    with taken_out(mend):
        error = run_one(mend.seed)[1]
    assert error, "look for new seeds: python -m tests.link_simulation.mends"


def test_a_seed_is_a_history(simulated) -> None:
    """Whatever ran before."""
    first, _, trace = run_one(17, is_traced=True)
    run_one(18)
    second, _, again = run_one(17, is_traced=True)
    assert (first, trace) == (second, again)
    assert len(trace) > 100
    assert run_one(18, is_traced=True)[2] != trace


def test_what_a_sink_lacks_doubles_or_mixes_up_is_seen(simulated) -> None:
    """The checks find what they are there to find."""

    def spoilt(spoil) -> str:
        history = History(5)
        history.run()
        query = next(one for one in history.receivers if any(one.sink.values()))
        spoil(query.sink[max(number for number, rows in query.sink.items() if rows)])
        from link_simulation import checks

        with pytest.raises(AssertionError) as caught:
            checks.check(history)
        return str(caught.value)

    assert "lost" in spoilt(lambda rows: rows.pop())
    assert "after" in spoilt(lambda rows: rows.append(rows[0]))
    assert "never sent" in spoilt(lambda rows: rows.append(rows[-1]._replace(number=99)))
