"""What a checkpoint has in flight on the live clock: marks of ledgers, stamps of the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import LedgerError
from flowcontrol.job.channel_elements import Mark
from flowcontrol.live.elements import ReceivedElements
from flowcontrol.live.marks_in_flight import SentMarks, elements_of, waiting_from

WATERMARK, IDLE = 2, 4


class Ledger:
    """Rows of one channel, 0 to 3: the marks of each round."""

    def __init__(self, *rounds: list[Mark], packed: int = -1) -> None:
        self.path, self.rounds, self.reads = Path("ledger"), rounds, list[int]()
        self.packed = packed

    def last_batch(self, side: str) -> int:
        return len(self.rounds) - 1

    def refresh(self, *, at_once: bool) -> None:
        assert at_once
        self.packed = -1

    def rows(self, side: str, number: int) -> list[dict[str, Any]]:
        assert side == "sender"
        if number == self.packed:
            raise FileNotFoundError(number)
        self.reads.append(number)
        marks = json.dumps({"marks": [list(mark) for mark in self.rounds[number]]})
        return [{"sender": 0, "receiver": 3, "channel_state": marks}]


A, B, C, D = (Mark(10 * n, WATERMARK, n) for n in range(4))


def first(ledger: Ledger, waiting: list[Mark], count: int, number: int = 1) -> list[Mark]:
    kept = waiting_from(number, {"waiting": [[[list(mark) for mark in waiting]]]})
    return SentMarks({"edge": ledger}).first("edge", (0, 3), kept, (0, 0), count)  # type: ignore[dict-item]


def test_those_that_waited_come_first_then_those_of_the_rounds_from_then_on() -> None:
    """The sender's marks of a round before have come by the checkpoint."""
    ledger = Ledger([D], [B], [], [C, D])
    assert first(ledger, [A], 3) == [A, B, C]
    assert ledger.reads == [1, 2, 3]
    assert first(ledger, [A, B], 2) == [A, B]
    assert first(ledger, [A, B], 0) == []
    assert ledger.reads == [1, 2, 3], "nothing was read for these"


def test_a_round_whose_file_was_packed_meanwhile_is_read_again() -> None:
    assert first(Ledger([], [B], packed=1), [], 1) == [B]


def test_a_ledger_that_has_too_few_is_named() -> None:
    with pytest.raises(LedgerError, match=r"ledger: channel 0->3 had 4 marks .* of which 2 are"):
        first(Ledger([], [B]), [A], 4)


def test_marks_stand_between_the_records_behind_which_they_were_put() -> None:
    marks = [Mark(5, WATERMARK, 7), Mark(7, IDLE, 0), Mark(7, WATERMARK, 9)]
    record = (0, 0)
    assert elements_of(5, 8, marks) == [
        (WATERMARK, 7), record, record, (IDLE, 0), (WATERMARK, 9), record,
    ]  # fmt: skip
    assert elements_of(5, 7, []) == [record, record]
    assert elements_of(4, 4, []) == []


def test_a_restored_channel_asks_for_no_stamp_of_the_attempt_before() -> None:
    """Behind what was in flight the log has these until the new attempt has written there."""
    log = list(range(100, 110))
    asked = []

    def fetch(number: int) -> list[int]:
        asked.append(number)
        return log[number:]

    channel = ReceivedElements(fetch)
    channel.begin_with((2, 1), elements_of(2, 5, [Mark(4, WATERMARK, 8)]))
    assert (channel.taken, channel.restored, list(channel.marks)) == (2, 5, [(4, WATERMARK, 8)])
    assert channel.stamps_of(2, 1) == [102]
    channel.take(3)
    log[5:] = [205, 206]
    assert channel.stamps_of(5, 2) == [205, 206]
    assert asked == [2, 5]
