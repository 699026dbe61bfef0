"""Receivers that come while senders trim: nothing that one still has to read goes."""

from __future__ import annotations

import io
import json
import logging
import os

import pytest
from rich.console import Console

from flowcontrol.errors import LinkError
from flowcontrol.link.link import Link
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.table import render
from flowcontrol.link.settings import schema_of
from flowcontrol.link.source import LinkReader

POINTS = ["before-exchange", "before exchange", "after exchange"]
MOMENTS = [("before-exchange", 1), ("after exchange", 3)]
if "FLOWCONTROL_LONG" in os.environ:
    MOMENTS = [(point, batch) for point in POINTS for batch in (1, 2, 3)]


def at(pipeline, who, point, batch, act):
    """Do something once when a sender passes a point in a batch."""
    query, pass_by, todo = pipeline.senders[who], pipeline.pass_by, [act]

    def watched(name, here):
        if (name, here) == (who, point) and query.planned == batch and todo:
            todo.pop()()
        pass_by(name, here)

    pipeline.pass_by = watched
    return todo


def one_by_one(pipeline, batches):
    """Let all of a batch be consumed before the next one comes: then its files can be trimmed."""
    for batch in batches:
        pipeline.senders["a"].batches.append(batch)
        pipeline.drain()


@pytest.mark.parametrize(("point", "batch"), MOMENTS)
def test_a_receiver_registers_between_a_look_and_a_trimming_commit(make, dry, verify, batch, point):
    pipeline = make()
    a = pipeline.sender("a")
    pipeline.receiver("main")
    late, before = dry.ReceiverQuery(pipeline, "late"), []
    late.is_late = True

    def register():
        before.extend(a.sender.files.log.files)
        late.advance()  # it takes what its credit allows; the rest must still be there then
        pipeline.receivers.append(late)

    todo = at(pipeline, "a", point, batch, register)
    one_by_one(pipeline, dry.batches_of(6, rows=24, size=500))
    assert not todo
    assert before
    assert not set(before) & set(a.sender.files.log.files)  # what was there has gone since
    assert a.done == 5
    assert late.rows.num_rows > 0
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize(
    "point", [pytest.param("before ledger", marks=pytest.mark.long), "after ledger"]
)
def test_a_receiver_killed_in_its_registration_begins_where_rows_are(make, dry, verify, point):
    """It had registered, and did not know yet where it begins."""
    pipeline = make()
    a = pipeline.sender("a")
    pipeline.receiver("main")
    late = dry.ReceiverQuery(pipeline, "late")
    late.is_late = True

    def register():
        pipeline.arm("late", point)
        with pytest.raises(dry.Crash):
            late.open().initialOffset()
        late.kill()
        pipeline.receivers.append(late)

    todo = at(pipeline, "a", "before-exchange", 3, register)
    one_by_one(pipeline, dry.batches_of(6, rows=24, size=500))
    assert not todo
    assert a.done == 5
    assert late.rows.num_rows > 0
    verify.check_pipeline(pipeline)


def test_what_is_trimmed_was_announced_a_commit_before(make, dry, monkeypatch):
    """So a receiver that registers in between knows behind what it must begin."""
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(6, rows=24))
    pipeline.receiver("main")
    trims = []

    def note(who, point):
        if (who, point) == ("a", "before exchange"):
            state = a.sender.ledger.latest.state
            trims.append((a.sender.output.trimmable(), state["trimmed"]))

    a.batches.clear()
    monkeypatch.setattr(pipeline, "pass_by", note)
    one_by_one(pipeline, dry.batches_of(5, rows=24))
    assert any(sum(trim) for trim, _ in trims)
    assert all(
        own <= told for trim, announced in trims for own, told in zip(trim, announced, strict=True)
    )


# ---------------------------------------------------------------------- where one begins


def test_a_late_receiver_says_where_it_begins(make, dry, caplog):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(4, rows=24))
    pipeline.receiver("main")
    with caplog.at_level(logging.WARNING, "flowcontrol.link"):
        pipeline.drain()
        assert caplog.messages == []  # who is there from the start begins at the first row
        late = pipeline.receiver("late")
        first = late.open().initialOffset()["cursors"]["0"]
    assert sum(first) > 0
    assert len(caplog.messages) == 1
    assert (
        "receiver 'late' begins in the middle: rows before it were consumed by all others and "
        f"are not read: {sum(first)} of 96 of sender 'a'"
    ) in caplog.messages[0]
    late.kill()
    caplog.clear()
    late.open().initialOffset()
    assert caplog.messages == []  # once
    assert a.done == 3


def test_from_start_reads_all_rows_while_they_are_there(make, dry, verify):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(1, rows=24))
    pipeline.receiver("main")
    pipeline.drain()
    late = pipeline.receiver("late", from_start="true")
    pipeline.drain()
    assert late.rows.num_rows == 24
    verify.check_pipeline(pipeline)


def test_from_start_is_refused_with_figures_when_rows_are_gone(make, dry, verify):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(4, rows=24))
    pipeline.receiver("main")
    pipeline.drain()
    late = dry.ReceiverQuery(pipeline, "late", from_start="true")
    before = len(verify.ledger_rows(pipeline.storage))
    with pytest.raises(
        LinkError,
        match=r"receiver 'late' is to read from the start, but the first rows .* are gone: "
        r"\d+ of 96 of sender 'a'\. Leave from_start out",
    ):
        late.advance()
    assert len(verify.ledger_rows(pipeline.storage)) == before
    a.batches += dry.batches_of(8, rows=24, first=4)
    pipeline.drain()  # it holds nobody up
    assert a.done == 7
    verify.check_pipeline(pipeline)


def test_from_start_is_refused_if_rows_go_while_it_registers(make, dry, verify, monkeypatch):
    """It has registered by then, and takes that back."""
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(8, rows=24))
    pipeline.receiver("main")
    late = dry.ReceiverQuery(pipeline, "late", from_start="true")
    reader = late.open()
    while a.done < 0:  # nothing is announced yet
        for query in pipeline.queries:
            query.advance()
    receiver = reader._made()
    commit = receiver.ledger.commit

    def later(*arguments):
        monkeypatch.undo()
        while a.done < 3:
            for query in pipeline.queries:
                query.advance()
        return commit(*arguments)

    monkeypatch.setattr(receiver.ledger, "commit", later)
    with pytest.raises(LinkError, match="from the start, but the first rows"):
        late.advance()
    pipeline.drain()
    assert a.done == 7
    verify.check_pipeline(pipeline)


def test_from_start_is_true_or_false(tmp_path, dry):
    link = Link(tmp_path / "link", schema=dry.SCHEMA)
    options = {"path": str(link.storage), "from_start": "yes"}
    with pytest.raises(LinkError, match="from_start is 'yes': needs true or false"):
        LinkReader(options, schema_of(link.settings.schema))


def test_watch_says_which_receiver_began_late(make, dry):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(4, rows=24))
    pipeline.receiver("main")
    pipeline.drain()
    late = pipeline.receiver("late")
    first = late.open().initialOffset()["cursors"]["0"]
    console = Console(width=100, file=io.StringIO())
    console.print(render([LinkMonitor(str(pipeline.storage)).snapshot()]))
    assert (
        f"late began {sum(first)} rows late: the others had consumed them"
        in console.file.getvalue()
    )
    assert "main began" not in console.file.getvalue()


def test_a_receiver_that_was_removed_counts_what_it_missed(make, dry, caplog):
    """What it had read before is not missed."""
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(2, rows=24))
    pipeline.receiver("main")
    late = pipeline.receiver("late")
    pipeline.drain()
    pipeline.link.remove_receiver("late", force=True)
    pipeline.receivers.remove(late)
    for number in range(2, 6):
        a.batches.append(dry.source_rows("a", 24 * number, [0, 1] * 12, 100))
        pipeline.drain()
    begin = json.loads(late.offsets[late.done])["cursors"]["0"]
    late.forget_checkpoint()
    late.options["reset"] = "true"
    first = late.open().initialOffset()["cursors"]["0"]
    assert f"{sum(first) - sum(begin)} of 144 of sender 'a'" in caplog.messages[-1]
