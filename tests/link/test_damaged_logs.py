"""A commit that is torn, empty or gone is named, on whichever side it is met; nothing is lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from flowcontrol.errors import DamagedError, LinkError


@pytest.fixture
def pipeline(make, dry):
    """A link through which batches have gone, whose queries are killed, with one more to send."""
    made = make()
    rows = [dry.source_rows("a", n * 20, [i % 2 for i in range(20)], 100) for n in range(4)]
    query = made.sender("a", rows[:3])
    made.receiver()
    made.drain()
    query.batches.append(rows[3])
    for one in made.queries:
        one.kill()
    return made


def commits(pipeline, table: str) -> list[Path]:
    return sorted((Path(str(pipeline.storage)) / table / "_delta_log").glob("0*.json"))


def start(pipeline, side: str) -> None:
    query = pipeline.senders["a"] if side == "sender" else pipeline.receivers[0]
    for _ in range(10):
        query.advance()


DAMAGE = {
    "empty": lambda _: b"",
    "torn": lambda content: content[: len(content) // 2],
    "torn at a line": lambda content: content.splitlines(keepends=True)[0],
    "overwritten": lambda content: b"\x00" * len(content),
}


@pytest.mark.parametrize("side", ["sender", "receiver"])
@pytest.mark.parametrize("table", ["exchange", "ledger"])
@pytest.mark.parametrize(
    ("damage", "place"),
    [
        # The quick form has each damage at one of the places.
        pytest.param(damage, place, marks=[pytest.mark.long] * ((row + column) % 2))
        for row, damage in enumerate(DAMAGE)
        for column, place in enumerate((-1, 3))
    ],
)
def test_a_damaged_commit_is_named(pipeline, verify, side, table, damage, place):
    path = commits(pipeline, table)[place]
    content = path.read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    with pytest.raises(DamagedError, match=rf"{path} is damaged: .*put it back from a copy"):
        start(pipeline, side)
    path.write_bytes(content)
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize("side", ["sender", "receiver"])
@pytest.mark.parametrize("table", ["exchange", "ledger"])
@pytest.mark.parametrize("place", [0, 3])
def test_a_commit_that_is_missing_before_others_is_named(pipeline, verify, side, table, place):
    path = commits(pipeline, table)[place]
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(DamagedError, match=rf"{path} is missing although "):
        start(pipeline, side)
    path.write_bytes(content)
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_last_commit_of_rows_is_missed_by_what_the_ledger_knows(pipeline, verify, side):
    """The sender says so before it commits another in its place."""
    exchange = commits(pipeline, "exchange")
    content = exchange[-1].read_bytes()
    exchange[-1].unlink()
    with pytest.raises(
        DamagedError,
        match=rf"at record 20 of channel 0 of sender 0; the ledger knows of 30: "
        rf"_delta_log/{exchange[-1].name} was deleted",
    ):
        start(pipeline, side)
    assert commits(pipeline, "exchange") == exchange[:-1]
    exchange[-1].write_bytes(content)
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_the_last_commits_of_the_ledger_are_missed(pipeline, verify, side):
    """Those of both sides: refused, or sent again from what the log of rows has."""
    for path in commits(pipeline, "ledger")[-4:]:
        path.unlink()
    with suppress(LinkError):
        start(pipeline, side)
        pipeline.drain()
    verify.check_rows(pipeline.senders["a"].batches, [pipeline.receivers[0].rows], is_all=False)
