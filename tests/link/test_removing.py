"""Receivers that do not come back are removed; those that do are refused, or begin again."""

from __future__ import annotations

import json

import pytest

from flowcontrol.errors import LinkError, RemovedError
from flowcontrol.ledger.link_ledger import LinkLedger


@pytest.fixture
def held(make, dry):
    """A link whose sender waits for an audit that read some rows and went away."""
    made = make()
    a = made.sender("a", dry.batches_of(6))
    made.receiver("main")
    audit = made.receiver("audit")
    made.lose(audit)
    made.drain()
    assert a.done < 5
    made.audit = audit
    return made


def test_a_receiver_that_stays_away_is_removed_and_the_others_go_on(held, verify):
    held.link.remove_receiver("audit", force=True)
    held.drain()
    assert held.senders["a"].done == 5
    assert held.receivers[0].rows.num_rows == 120
    verify.check_pipeline(held)


def test_a_name_that_is_not_known_is_refused(held, verify):
    before = len(verify.ledger_rows(held.storage))
    with pytest.raises(
        LinkError, match=r"has no receiver 'audits': its receivers are: audit, main$"
    ):
        held.link.remove_receiver("audits")
    assert len(verify.ledger_rows(held.storage)) == before


def test_a_link_without_receivers_says_so(make):
    with pytest.raises(LinkError, match="has no receiver 'audit': its receivers are: none"):
        make().link.remove_receiver("audit", force=True)


def test_a_removed_receiver_that_comes_back_is_refused(held, verify):
    held.link.remove_receiver("audit", force=True)
    with pytest.raises(
        RemovedError,
        match=r"receiver 'audit' was removed from the link: .* under another name, or .* with a "
        r"new checkpoint and \.option\('reset', True\)",
    ):
        held.audit.advance()
    held.audit.forget_checkpoint()
    with pytest.raises(RemovedError, match="was removed"):
        held.audit.advance()
    with pytest.raises(LinkError, match="no receiver 'audit': its receivers are: main"):
        held.link.remove_receiver("audit", force=True)
    held.drain()
    assert held.senders["a"].done == 5
    verify.check_pipeline(held)


def test_it_comes_back_with_a_reset_at_the_oldest_rows(held, dry, verify):
    held.link.remove_receiver("audit", force=True)
    held.drain()
    held.audit.forget_checkpoint()
    held.audit.options["reset"] = "true"
    held.audit.is_late = True
    held.receivers.append(held.audit)
    held.senders["a"].batches += dry.batches_of(9, first=6)
    held.drain()
    assert held.senders["a"].done == 8
    numbers = held.audit.rows.column("number").to_pylist()
    assert set(range(120, 180)) <= set(numbers)
    verify.check_pipeline(held)
    held.audit.kill()  # and is an ordinary receiver from then on
    held.audit.options.pop("reset")
    held.senders["a"].batches += dry.batches_of(10, first=9)
    held.drain()
    verify.check_pipeline(held)


def test_it_goes_on_where_it_was_if_the_rows_are_there(held, verify):
    """Removed by mistake: nothing was trimmed meanwhile."""
    ended = held.audit.done
    begun = json.loads(held.audit.offsets[ended - 1])["cursors"]["0"] if ended else [0, 0]
    held.link.remove_receiver("audit", force=True)
    held.audit.forget_checkpoint()
    held.audit.options["reset"] = "true"
    assert held.audit.open().initialOffset()["cursors"]["0"] == begun
    held.receivers.append(held.audit)
    held.drain()
    assert held.senders["a"].done == 5
    verify.check_pipeline(held)


def test_all_queries_of_a_name_go_together(make, dry, verify):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(6))
    pipeline.receiver("main")
    parts = [pipeline.receiver("audit", channels) for channels in ("0", "1")]
    while min(part.done for part in parts) < 0:
        for query in pipeline.queries:
            query.advance()
    for part in parts:
        part.kill()
        pipeline.receivers.remove(part)
    pipeline.drain()
    assert a.done < 5
    pipeline.link.remove_receiver("audit", force=True)
    pipeline.drain()
    assert a.done == 5
    verify.check_pipeline(pipeline)
    other = pipeline.receiver("audit", "0,1")  # cut otherwise, it is the same receiver still
    with pytest.raises(RemovedError, match="was removed"):
        other.advance()


def test_a_query_that_still_runs_ends_with_the_reason(held, monkeypatch):
    """Also when it is removed between its look and its commit."""
    audit = held.audit
    audit.advance()
    receiver = audit.reader._made()
    commit, remove = receiver.ledger.commit, held.link.remove_receiver

    def later(*arguments):
        remove("audit", force=True)
        return commit(*arguments)

    monkeypatch.setattr(receiver.ledger, "commit", later)
    with pytest.raises(RemovedError, match="'audit' was removed from the link"):
        for _ in range(5):
            held.senders["a"].advance()
            audit.advance()


def test_a_receiver_that_starts_while_it_is_removed_stays(held, monkeypatch, verify):
    claim, audit = LinkLedger.claim, held.audit

    def then(ledger):
        epoch = claim(ledger)
        monkeypatch.setattr(LinkLedger, "claim", claim)
        audit.advance()
        return epoch

    monkeypatch.setattr(LinkLedger, "claim", then)
    with pytest.raises(LinkError, match="receiver 'audit' is starting: stop its queries"):
        held.link.remove_receiver("audit", force=True)
    held.receivers.append(audit)
    held.drain()
    assert held.senders["a"].done == 5
    verify.check_pipeline(held)


def test_a_receiver_that_was_cut_off_and_removed_may_come_back(make, dry, verify):
    pipeline = make(detach_after_bytes=4000)
    a = pipeline.sender("a", dry.batches_of(8))
    pipeline.receiver("main")
    slow = pipeline.receiver("slow")
    pipeline.lose(slow)
    pipeline.drain()
    assert a.sender.output.detached == ["slow"]
    pipeline.link.remove_receiver("slow", force=True)
    a.batches += dry.batches_of(9, first=8)
    pipeline.drain()
    assert a.sender.output.detached == []
    slow.forget_checkpoint()
    slow.options["reset"] = "true"
    slow.is_late = True
    pipeline.receivers.append(slow)
    a.batches += dry.batches_of(10, first=9)
    pipeline.drain()
    assert set(range(180, 200)) <= set(slow.rows.column("number").to_pylist())
    verify.check_pipeline(pipeline)
