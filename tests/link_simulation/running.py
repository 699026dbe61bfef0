"""Run seeded histories, in several processes if there are many."""

from __future__ import annotations

import logging
import multiprocessing
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from .history import History
from .install import installed

PIECE = 250
"""Histories that a process runs before it reports."""


def run_one(seed: int, *, is_traced: bool = False) -> tuple[Counter[str], str, list[str]]:
    """Return what a history met, its error, and its trace."""
    history = History(seed, is_traced=is_traced)
    try:
        history.run()
        error = ""
    except Exception as wrong:
        error = "".join(traceback.format_exception(wrong))
    return history.met, error, history.files.trace or []


def run_piece(first: int, count: int) -> tuple[Counter[str], dict[int, str]]:
    """Run histories with the seeds from one on; return what they met, and the errors."""
    logging.disable()
    met, failed = Counter[str](), {}
    with installed():
        for seed in range(first, first + count):
            own, error, _ = run_one(seed)
            met += own
            if error:
                failed[seed] = error
    return met, failed


def run_many(first: int, count: int, processes: int) -> tuple[Counter[str], dict[int, str]]:
    """Run histories in several processes."""
    met, failed = Counter[str](), dict[int, str]()
    pieces = [(n, min(PIECE, first + count - n)) for n in range(first, first + count, PIECE)]
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, fork) as pool:
        for (begin, size), (own, wrong) in zip(
            pieces, pool.map(run_piece, *zip(*pieces, strict=True)), strict=True
        ):
            met += own
            failed |= wrong
            for seed, error in wrong.items():
                print(f"seed {seed}: {error.strip().splitlines()[-1][:300]}", flush=True)
            if (begin + size - first) % (PIECE * 40) == 0:
                print(f"{begin + size - first} histories, {len(failed)} failed", flush=True)
    return met, failed
