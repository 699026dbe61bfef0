"""Whole jobs in memory: by hand, resumed at any round, and with credits ignored."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.emulation import Outgoing
from flowcontrol.emulation import subtask as subtask_module
from flowcontrol.emulation.rehearsal import first_incoming, first_outgoing, rehearse
from flowcontrol.errors import ProtocolError
from flowcontrol.ledger.audit import audit

EDGE = "source->sink"


def cursors(rounds: Any, edge: str = EDGE) -> list[tuple[int, ...]]:
    """Sent, released, pool used; announced, consumed, floating held: of a single channel."""
    found = []
    for batch in rounds:
        [sent], [received] = batch.rows[edge]["sender"], batch.rows[edge]["receiver"]
        found.append(
            (
                *(sent[name] for name in ("sent", "released", "pool_used")),
                *(received[name] for name in ("announced", "consumed", "floating_held")),
            )
        )
    return found


# ---------------------------------------------------------------- by hand

# A record is one buffer. Five are due a round, the sink takes two. The gate has 2 exclusive and
# 3 floating buffers, the sender's pool 5 and no overdraft; the flusher runs at the end of each
# round. Worked out with pencil and paper from reference sections 1.3 to 1.6 and 2.5.
BY_HAND = [
    # sender:                  receiver:
    # sent, released, in pool; announced, consumed, floating held
    (2, 5, 3, 2, 0, 0),  # writes 5, sends 2 on its initial credit (backlogs 4, 3)
    (2, 7, 5, 7, 2, 3),  # writes 2: pool full / backlog 4: takes 3 floating, waits; reads both
    (7, 7, 0, 7, 2, 3),  # blocked; hears of 7: sends 5 (backlogs 4 to 0) / starves
    (7, 12, 5, 9, 4, 3),  # writes 5, no credit / gets 5; both floating that return are taken
    (9, 12, 3, 9, 6, 1),  # blocked; sends 2 / wants only 2: a floating one stays in the pool, and
    #                       an exclusive one that returns pushes one out: no credit for either
    (9, 14, 5, 13, 8, 3),  # writes 2, no credit / backlog 4: takes 2 floating, waits
    (13, 14, 1, 14, 9, 3),  # blocked; sends 4 / reads the last one
    (14, 18, 4, 16, 11, 3),  # writes 4, sends 1 / gets 4
    (16, 19, 3, 18, 13, 3),  # writes 1, sends 2 / gets 1
    (18, 21, 3, 20, 15, 3),  # writes 2, sends 2 / gets 2: at the sink's pace from here on
    (20, 23, 3, 22, 17, 3),
    (22, 25, 3, 24, 19, 3),
]


def test_a_single_channel_by_hand(jobs: ModuleType) -> None:
    made = jobs.job(
        [jobs.source(50, record_bytes=4096), jobs.sink(20)],
        [("source", "sink", "forward")],
        {jobs.FLOATING: 3, jobs.OVERDRAFT: 0},
        duration_s=1.2,
    )
    assert cursors(rehearse(made)) == BY_HAND


# Without a flusher the last full buffer is seen only when the next is begun (reference 2.5).
NEVER_FLUSHED = [
    (1, 2, 1, 2, 0, 0),  # writes 2, the second stays unseen
    (2, 4, 2, 3, 1, 1),
    (4, 6, 2, 4, 2, 1),
]


# A local channel: no credit; a buffer is the producer's until the sink has consumed it. The
# pool has 5; what the receiver has consumed is known, and free, a round later.
LOCAL = [
    (5, 5, 5, 0, 0, 0),  # hands 5 over
    (5, 5, 5, 5, 2, 0),  # blocked / gets 5, reads 2
    (7, 7, 5, 5, 4, 0),  # writes 2
    (9, 9, 5, 7, 6, 0),
    (11, 11, 5, 9, 8, 0),
    (13, 13, 5, 11, 10, 0),
]


def test_a_local_channel_by_hand(jobs: ModuleType) -> None:
    made = jobs.job(
        [jobs.source(50, record_bytes=4096, placement=[0]), jobs.sink(20, placement=[0])],
        [("source", "sink", "forward")],
        {jobs.FLOATING: 3, jobs.OVERDRAFT: 0},
        duration_s=0.6,
    )
    assert cursors(rehearse(made)) == LOCAL
