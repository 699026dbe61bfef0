"""A link is drained and its pipeline goes on without it: nothing lost, doubled or out of order."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from flowcontrol.cli.main import main
from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import draining as draining_module
from flowcontrol.link.draining import drain
from flowcontrol.link.link import Link
from flowcontrol.link.members import senders_of, view_of
from modules import load

dry = load("tests/link/dry.py")
verify = load("tests/link/verify.py")


class Rows:
    """What a data frame says of its query, and the rows themselves."""

    def __init__(self, table: pa.Table, query: str | None) -> None:
        self.table, self.query = table, query
        self.sparkSession = self.sparkContext = self

    def count(self) -> int:
        return len(self.table)

    def getLocalProperty(self, name: str) -> str | None:
        return self.query if name == "sql.streaming.queryId" else "run"


def run_without(pipeline, name="a", write=None):
    """Start a sender's query without the link; return what its function was given, by batch."""
    query, sink = pipeline.senders[name], {}
    function = pipeline.link.bypass(name, write or (lambda rows, id: sink.update({id: rows.table})))
    for batch_id in range(query.done + 1, len(query.batches)):
        query.planned = batch_id
        function(Rows(query.batches[batch_id], query.checkpoint), batch_id)
        query.done = batch_id
    return sink


def check_whole(pipeline, receiver, sinks):
    """Check that the receiver's sink, and behind it the others, have every row once, in order."""
    behind = [table for sink in sinks for _, table in sorted(sink.items())]
    found = pa.concat_tables([receiver.rows.select(dry.SCHEMA.names), *behind])
    sent = pa.concat_tables(table for one in pipeline.senders.values() for table in one.batches)
    order = [("source", "ascending"), ("number", "ascending")]
    assert found.sort_by(order).equals(sent.sort_by(order))
    verify.check_order(found)


@pytest.fixture
def reading(monkeypatch):
    """Return a function by which the receivers of a pipeline read while a drain waits for them."""

    def begin(pipeline, also=lambda: None):
        def read(_):
            also()
            for receiver in pipeline.receivers:
                receiver.advance()

        monkeypatch.setattr(draining_module.time, "sleep", read)

    return begin


@pytest.fixture
def used(make):
    """A link in the middle of two senders' batches, whose receiver has to read on."""
    made = make(exclusive_buffers=1, floating_buffers=0)
    made.sender("a", dry.batches_of(4, rows=40, size=200))
    made.sender("b", dry.batches_of(3, rows=30, size=300, name="b"))
    made.receiver("main")
    while min(one.done for one in made.senders.values()) < 0:
        for query in made.queries:
            query.advance()
    for sender in made.senders.values():
        while sender.planned == sender.done or sender.sender.waiting_bytes() == 0:
            sender.advance()
    return made


def test_senders_stop_receivers_read_on_and_the_rest_goes_past_the_link(used, reading):
    refused = []

    def go_on():
        if used.senders["a"].sender is not None:
            with pytest.raises(LinkError, match=r"being drained, sender 'a' .*link\.bypass\('a',"):
                used.senders["a"].advance()
            refused.append("a")

    reading(used, go_on)
    planned = {name: one.planned for name, one in used.senders.items()}
    used.link.drain()
    assert refused == ["a"]
    used.senders["b"].kill()  # its query never looked
    assert used.link.describe()["drain"] == "done"
    sinks = [run_without(used, name) for name in used.senders]
    # The batch that was in the link is not written again.
    assert [sorted(sink) for sink in sinks] == [
        list(range(planned[name] + 1, len(one.batches))) for name, one in used.senders.items()
    ]
    check_whole(used, used.receivers[0], sinks)
    verify.check_pipeline(used, is_all=False)


@pytest.mark.parametrize("name", ["a", "c"])
def test_no_sender_begins_while_a_link_is_drained(used, reading, name):
    def begin():
        for one in used.senders.values():
            one.kill()
        with pytest.raises(LinkError, match=f"being drained, sender '{name}' writes no more"):
            used.sender(name, used.senders[name].batches if name in used.senders else []).open()

    reading(used, begin)
    done = {name: one.done for name, one in used.senders.items()}
    used.link.drain()
    used.senders.pop("c", None)
    for name, one in used.senders.items():
        one.done = done[name]
    check_whole(used, used.receivers[0], [run_without(used, name) for name in used.senders])


def test_a_sender_that_looked_before_the_mark_finds_it_behind_its_claim(used, monkeypatch):
    claim = LinkLedger.claim

    def late(ledger):
        if ledger.member == "sender/a":
            with suppress(LinkError):
                used.link.drain(wait_s=0)
        monkeypatch.setattr(LinkLedger, "claim", claim)
        return claim(ledger)

    used.senders["a"].kill()
    monkeypatch.setattr(LinkLedger, "claim", late)
    with pytest.raises(LinkError, match="being drained, sender 'a' writes no more"):
        used.senders["a"].open()


POINTS = ["before exchange", "after exchange", "before-ledger", "after ledger", "ran", "planned"]


@settings(max_examples=max(10, settings.default.max_examples // 2))
@given(
    point=st.sampled_from(POINTS),
    steps=st.integers(0, 12),
    broken=st.lists(st.sampled_from(["before ledger", "after ledger", "step"]), max_size=3),
    has_zombie=st.booleans(),
)
def test_whatever_is_killed_every_row_arrives_once(point, steps, broken, has_zombie):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        made = dry.Pipeline(Path(folder) / "link", exclusive_buffers=1, floating_buffers=0)
        stack.callback(made.close)
        made.sender("a", dry.batches_of(4, rows=20, size=200))
        made.receiver("main")
        for _ in range(steps):
            for query in made.queries:
                query.advance()
        made.arm("a", point)
        for _ in range(30):
            if made.is_armed:
                for query in made.queries:
                    query.advance()
        made.disarm()
        a = made.senders["a"]
        a.open() if a.sender is None and has_zombie else None
        zombie = a.sender if has_zombie else None
        if zombie is None:
            a.kill()

        def read(_):
            if zombie is not None:
                with pytest.raises(LinkError):
                    zombie.step()
                    zombie.ledger.commit([], {})
            made.receivers[0].advance()

        patch.setattr(draining_module.time, "sleep", read)
        for where in broken:
            made.arm(*(("drain", "step") if where == "step" else ("link", where)))
            try:
                list(drain(made.storage))
            except dry.Crash:
                event("a drain was killed")
            made.disarm()
        list(drain(made.storage))
        is_in_link = a.planned > a.done and verify_in_link(made, a)
        event(f"a batch in the link was not noted: {is_in_link}")
        a.kill()
        if not senders_of(view_of(made.storage)):  # it was killed before it had sent anything
            with pytest.raises(
                LinkError, match=r"has not sent as 'a' \(senders: none\): .* itself"
            ):
                run_without(made)
            return
        check_whole(made, made.receivers[0], [run_without(made)])


def verify_in_link(made, query):
    """Whether the receiver's sink has the first row of the batch that the query runs again."""
    first = query.batches[query.planned].column("number")[0].as_py()
    return first in made.receivers[0].rows.column("number").to_pylist()


def test_the_function_is_refused_where_rows_would_be_lost_or_doubled(used, reading):
    def write(rows, batch_id):
        raise AssertionError("the function was called")

    table = used.senders["a"].batches[0]
    function = pickle.loads(pickle.dumps(used.link.bypass("a", print)))
    function.function = write
    with pytest.raises(LinkError, match=r"the link is not drained: run flowcontrol link drain .*"):
        function(Rows(table, "checkpoint of a"), 1)
    reading(used)
    used.link.drain()
    with pytest.raises(LinkError, match=r"query q has not sent as 'a' \(senders: a, b\): give"):
        function(Rows(table, "q"), 1)
    with pytest.raises(LinkError, match="has not sent as 'x'"):
        used.link.bypass("x", write)(Rows(table, "checkpoint of a"), 1)
    with pytest.raises(LinkError, match="runs batch 0 again, but batch 1 is in the link"):
        function(Rows(table, "checkpoint of a"), 0)
    with pytest.raises(LinkError, match="runs batch 1 again with other rows: it has 3 rows"):
        function(Rows(table.slice(0, 3), "checkpoint of a"), 1)
    used.close()
    used.link.delete(force=True)
    with pytest.raises(LinkError, match="there is no link here any more: start the query with"):
        function(Rows(table, "checkpoint of a"), 2)


def test_a_drain_is_undone_and_the_senders_go_on(used, reading):
    reading(used)
    used.link.drain()
    used.link.drain(undo=True)
    assert used.link.describe()["drain"] is None
    with pytest.raises(LinkError, match="is not being drained: there is nothing to undo"):
        used.link.drain(undo=True)
    for sender in used.senders.values():
        sender.kill()
    used.drain()
    verify.check_pipeline(used)


@pytest.mark.parametrize("rival", [lambda link: list(drain(link.storage)), Link.drain])
def test_of_two_drains_one_goes_on(used, reading, rival):
    begun = []

    def begin():
        if not begun:
            begun.append(True)
            rival(used.link)

    reading(used, begin)
    with pytest.raises(LinkError, match="is not drained: another process drains it now"):
        used.link.drain()
    assert used.link.describe()["drain"] == "done"


def test_a_link_that_nobody_reads_is_not_drained(make):
    made = make()
    made.sender("a", dry.batches_of(1))
    made.senders["a"].advance()
    made.senders["a"].advance()
    with pytest.raises(LinkError, match="has no receivers, so nobody reads the rows in it"):
        made.link.drain()
    assert made.link.describe()["drain"] == "running"


def test_the_command_says_who_is_waited_for_and_how_to_go_on(used, monkeypatch, capsys):
    command = ["link", "drain", str(used.storage)]
    monkeypatch.setattr(draining_module, "REPORT_EVERY_S", 0.0)
    assert main([*command, "--wait", "-1"]) == 2
    assert "--wait -1: needs seconds, from 0 to" in capsys.readouterr().err
    assert main([*command, "--wait", "0"]) == 2
    text = capsys.readouterr().err
    assert "is not drained yet: receiver main has " in text
    assert "Its senders stay out: start the receivers' queries" in text
    assert main(["link", "show", str(used.storage)]) == 0
    assert capsys.readouterr().out.startswith(f"link {used.storage} is being drained\n")
    monkeypatch.setattr(
        draining_module.time, "sleep", lambda _: [one.advance() for one in used.receivers]
    )
    assert main(command) == 0
    first, *_, drained, a, b = capsys.readouterr().out.splitlines()
    assert first.startswith("waiting: receiver main has ")
    assert drained.endswith(" is drained: receivers have read all rows; stop their queries")
    assert a == "start sender a with its checkpoint and link.bypass('a', function)"
    assert b.startswith("start sender b ")
    assert main(["link", "show", str(used.storage)]) == 0
    assert capsys.readouterr().out.startswith(f"link {used.storage} is drained\n")
    assert main([*command, "--undo"]) == 0
    assert "takes rows again: start its senders" in capsys.readouterr().out


def test_a_new_link_and_no_link(tmp_path):
    with pytest.raises(LinkError, match="there is no link here"):
        list(drain(Link(tmp_path / "none").storage))
    made = Link(tmp_path / "new", channels=2)
    made.drain()
    assert made.describe()["drain"] == "done"
