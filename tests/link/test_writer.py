"""The sink without Spark: what it does in each of Spark's processes, and what a failure leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from flowcontrol.errors import FencedError, LinkError, StoppedError
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import writer as writer_module
from flowcontrol.link.link import Link
from flowcontrol.link.members import senders_of
from flowcontrol.spark.crash_points import CrashPoint
from modules import load

sinks = load("tests/link/sinks.py")
Query, arrived, state_of = sinks.Query, sinks.arrived, sinks.state_of
pipeline, query, rows_of = sinks.pipeline, sinks.query, sinks.rows_of


# ---------------------------------------------------------------------- batches


def test_rows_arrive_once_also_from_batches_without_any(pipeline, query, rows_of):
    query.run(rows_of(0), rows_of(20, 0), rows_of(20))
    assert arrived(pipeline) == list(range(40))


def test_a_batch_that_comes_again_in_other_parts_changes_nothing(pipeline, query, rows_of):
    """Killed between the link's commit and Spark's own."""
    query.run(rows_of(0), rows_of(20))
    before = state_of(pipeline)
    query.commit(query.write(rows_of(20), parts=5), rows_of(20), 1)
    assert state_of(pipeline) == before
    query.run(rows_of(40))
    assert arrived(pipeline) == list(range(60))


def test_a_batch_that_comes_again_with_other_rows_is_refused(pipeline, query, rows_of):
    query.run(rows_of(0), rows_of(20))
    other = rows_of(20, 30)
    query.plan(1, other)
    with pytest.raises(LinkError, match="runs batch 1 again with other rows: it has the source's"):
        query.commit(query.write(other), other, 1)
    (query.folder / "offsets" / "1").unlink()  # a source whose offsets are not known
    with pytest.raises(LinkError, match="it has 30 rows, the batch 1 that is in the link had 20"):
        query.commit(query.write(other), other, 1)
    with pytest.raises(LinkError, match="runs batch 0 again, but batch 1 is in the link"):
        query.commit(query.write(rows_of(0)), rows_of(0), 0)
    assert arrived(pipeline) == list(range(40))


def test_what_attempts_have_written_whose_message_is_dropped_is_named_by_no_commit(
    pipeline, query, rows_of
):
    rows = rows_of(0)
    dropped, kept = query.write(rows), query.write(rows)
    query.plan(0, rows)
    query.commit([dropped[0], kept[1]], rows, 0)  # of two attempts at a task one counts
    query.done = 0
    query.run(rows_of(20))
    files = [path.name for path in Path(str(pipeline.storage)).rglob("link_sender=0/*.parquet")]
    named = {
        name.rpartition("/")[2] for name in writer_module._senders.popitem()[1].files.log.files
    }
    assert len(set(files) - named) == 2
    assert arrived(pipeline) == list(range(40))


def test_an_abort_deletes_nothing_that_a_failing_commit_has_committed(
    pipeline, query, rows_of, monkeypatch
):
    """Spark aborts when commit() raises, with the messages of files that the log names."""
    query.run(rows_of(0))
    commit = LinkLedger.commit

    def full(ledger, rows, state):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LinkLedger, "commit", full)
    rows = rows_of(20)
    query.plan(1, rows)
    messages = query.write(rows)
    with pytest.raises(OSError, match="No space"):
        query.commit(messages, rows, 1)
    monkeypatch.setattr(LinkLedger, "commit", commit)
    query.writer(rows, commits=True).abort([*messages, None], 1)
    query.run(rows)
    assert arrived(pipeline) == list(range(40))


def test_a_batch_without_tasks_or_rows_is_none(pipeline, query, rows_of):
    query.parts = 0
    query.run(rows_of(0, 0))
    assert state_of(pipeline)["written"] == [0, 0]
    query.parts = 3
    query.run(rows_of(0, 0), rows_of(0))
    assert arrived(pipeline) == list(range(20))


def test_a_complete_result_is_refused(query, rows_of):
    with pytest.raises(LinkError, match=r"outputMode\('complete'\) sends the whole result"):
        query.source().streamWriter(from_arrow_schema(rows_of(0).schema), True)


# ---------------------------------------------------------------------- credit


def test_a_batch_ends_when_all_of_it_is_released_whatever_may_spill(make, tmp_path, rows_of):
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0, spill_bytes=1 << 30)
    query = Query(pipeline, tmp_path / "a")
    with pytest.raises(
        LinkError, match=r"has waited 0 s while no receiver took anything: \d+ bytes have no buffer"
    ):
        query.run(rows_of(0, 60))
    # The batch is in the link; without a receiver its next start waits before the tasks.
    with pytest.raises(LinkError, match="has waited 0 s"):
        query.write(rows_of(0, 60))
    receiver = pipeline.receiver()
    for _ in range(200):
        receiver.advance()
        try:
            query.run(rows_of(0, 60))
            break
        except LinkError as error:
            assert "has waited" in str(error)
    receiver.advance()
    assert arrived(pipeline) == list(range(60))


def test_while_receivers_take_something_patience_begins_anew(make, tmp_path, rows_of, monkeypatch):
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0)
    query = Query(pipeline, tmp_path / "a", wait_s=5)
    receiver, clock = pipeline.receiver(), [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            clock[0] += 4
            receiver.advance()
            return clock[0]

    monkeypatch.setattr(writer_module, "time", Clock)
    query.run(rows_of(0, 60))
    assert clock[0] > 50
    assert arrived(pipeline) == list(range(60))


def test_a_process_that_spark_has_left_ends(make, tmp_path, rows_of, monkeypatch):
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0)
    query = Query(pipeline, tmp_path / "a", wait_s="inf")
    rows, parents = rows_of(0, 60), [7, 1]
    query.plan(0, rows)
    messages = query.write(rows)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0) if len(parents) > 1 else parents[0])
    with pytest.raises(StoppedError, match="was left by Spark while it waited"):
        query.commit(messages, rows, 0)


def test_channels_are_taken_over_between_two_batches(pipeline, query, rows_of):
    query.run(rows_of(0))
    before = query.write(rows_of(20))
    pipeline.link.alter(channels=3)
    query.plan(1, rows_of(20))
    query.commit(before, rows_of(20), 1)  # it was written for the channels of before
    query.done = 1
    assert state_of(pipeline)["written"][2:] == []
    query.run(rows_of(40))
    assert len(state_of(pipeline)["written"]) == 3
    assert arrived(pipeline) == list(range(60))


# ---------------------------------------------------------------------- who may send


def test_one_start_has_one_epoch_whatever_process_acts(pipeline, query, rows_of, processes):
    query.run(rows_of(0), rows_of(20))
    processes()  # Spark ends them after a minute without a batch
    query.run(rows_of(40))
    assert state_of(pipeline)["epoch"] == 1
    query.driver = "driver 2"
    processes()
    query.run(rows_of(60))
    assert state_of(pipeline)["epoch"] == 2
    assert arrived(pipeline) == list(range(80))


def test_a_batch_whose_tasks_began_before_another_start_is_refused(pipeline, query, rows_of):
    query.run(rows_of(0))
    rows = rows_of(20)
    query.plan(1, rows)
    late = query.write(rows)
    query.driver = "driver 2"
    again = query.write(rows)
    with pytest.raises(FencedError, match="taken over while a batch was written"):
        query.driver = "driver 1"
        query.commit(late, rows, 1)
    query.driver = "driver 2"
    query.commit(again, rows, 1)
    query.done = 1
    query.run(rows_of(40))
    assert arrived(pipeline) == list(range(60))


def test_a_new_checkpoint_is_refused_and_the_message_names_both_ways(
    pipeline, query, rows_of, tmp_path
):
    query.run(rows_of(0))
    other = Query(pipeline, tmp_path / "b")
    with pytest.raises(LinkError, match=f"sender 'a' belongs to the query {query.id}") as caught:
        other.write(rows_of(20))
    assert "link.sender(name, reset=True)" in str(caught.value)
    assert ".option('reset', True)" in str(caught.value)
    other.options["reset"] = "true"
    other.run(rows_of(20))
    assert arrived(pipeline) == list(range(40))


def test_of_two_queries_that_both_take_a_name_over_the_first_is_out(
    pipeline, query, rows_of, tmp_path, processes
):
    """Else they would take turns, a batch each: no process of a sink knows that it was fenced."""
    query.options["reset"] = "true"
    query.run(rows_of(0))
    other = Query(pipeline, tmp_path / "b", reset="true")
    other.driver = "driver 2"
    other.run(rows_of(20))
    processes()
    with pytest.raises(LinkError, match=f"taken over from the query {query.id} by the query"):
        query.run(rows_of(40))
    other.run(rows_of(40))
    third = Query(pipeline, tmp_path / "c", reset="true")
    third.run(rows_of(60))
    for late in (query, other):
        with pytest.raises(LinkError, match="Stop one of them"):
            late.run(rows_of(80))
    assert arrived(pipeline) == list(range(80))


def test_a_checkpoint_that_was_moved_is_the_same_query(pipeline, query, rows_of, tmp_path):
    query.run(rows_of(0))
    moved = tmp_path / "moved"
    shutil.move(query.folder, moved)
    query.folder, query.options["checkpointLocation"] = moved, f"file://{moved}"
    query.run(rows_of(20))
    assert arrived(pipeline) == list(range(40))


def test_both_forms_of_a_sender_go_on_where_the_other_was(pipeline, query, rows_of):
    """With the same checkpoint: the batches that are in the link are known to both."""
    query.run(rows_of(0), rows_of(20))
    own = pipeline.sender("a", [rows_of(20 * n) for n in range(3)])
    own.checkpoint, own.planned, own.done = query.id, 1, 0
    own.is_connect = True
    pipeline.receiver()
    pipeline.drain()
    own.kill()
    query.done = 2
    query.run(rows_of(60))
    assert arrived(pipeline) == list(range(80))
    assert state_of(pipeline)["epoch"] == 3


def test_a_sender_that_was_removed_comes_back_with_reset_only(pipeline, query, rows_of):
    query.run(rows_of(0))
    arrived(pipeline)
    pipeline.receivers[0].advance()
    pipeline.link.remove_sender("a")
    with pytest.raises(LinkError, match=r"was removed from the link.*\.option\('reset', True\)"):
        query.write(rows_of(20))
    query.options["reset"] = "true"
    query.run(rows_of(20))
    assert arrived(pipeline) == list(range(40))


def test_a_link_that_was_deleted_or_moved_is_not_written_to(pipeline, query, rows_of, tmp_path):
    query.run(rows_of(0))
    rows = rows_of(20)
    query.plan(1, rows)
    messages = query.write(rows)
    pipeline.link.move(tmp_path / "elsewhere", force=True)
    with pytest.raises(LinkError, match="this link has moved to"):
        query.commit(messages, rows, 1)
    with pytest.raises(LinkError, match="this link has moved to"):
        query.write(rows)
    query.options["path"] = str(tmp_path / "elsewhere")
    query.run(rows)
    senders = LinkLedger(Link(tmp_path / "elsewhere").storage.child("ledger"), "sender/a")
    senders.close()
    assert sum(senders_of(senders)[0].records) == 40


# ---------------------------------------------------------------------- kills


POINTS = [
    CrashPoint.AFTER_CLAIM,
    CrashPoint.BEFORE_EXCHANGE,
    CrashPoint.BEFORE_LEDGER,
    CrashPoint.AFTER_LEDGER,
    CrashPoint.BEFORE_RELEASE,
    CrashPoint.AFTER_RELEASE,
    CrashPoint.BEFORE_RETURN,
]


@pytest.mark.parametrize("is_same_driver", [True, False])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_anywhere_loses_and_doubles_nothing(
    make, tmp_path, rows_of, dry, processes, point, is_same_driver
):
    """A process of a sink is killed, Spark with it or not; the batch runs again."""
    pipeline = make(channels=2, exclusive_buffers=1, floating_buffers=1)
    query, receiver = Query(pipeline, tmp_path / "a", wait_s="inf"), pipeline.receiver()
    batches = [rows_of(40 * n, 40) for n in range(3)]

    def run() -> None:
        while query.done < 2:
            query.run(batches[query.done + 1])

    ask = writer_module.Patience.__call__

    def read(patience: Any) -> bool:
        receiver.advance()
        return ask(patience)

    for time in range(1, 4):
        if query.done == 2:
            break
        pipeline.arm("a", point)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer_module.Patience, "__call__", read)
            try:
                run()
            except dry.Crash:
                query.parts += 1
        processes()
        if not is_same_driver:
            query.driver = f"driver {time + 1}"
    pipeline.disarm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module.Patience, "__call__", read)
        run()
    assert pipeline.kills > 0
    assert arrived(pipeline) == list(range(120))


def test_a_link_that_is_drained_takes_nothing_from_a_sink(pipeline, query, rows_of):
    query.run(rows_of(0))
    arrived(pipeline)
    rows = rows_of(20)
    query.plan(1, rows)
    messages = query.write(rows)
    receiver = pipeline.receivers[0]
    receiver.advance()
    pipeline.link.drain(wait_s=60)
    with pytest.raises(LinkError):
        query.commit(messages, rows, 1)
    with pytest.raises(LinkError, match="the link is being drained, sender 'a' writes no more"):
        query.write(rows)
    pipeline.link.drain(undo=True)
    query.run(rows)
    assert arrived(pipeline) == list(range(40))


def test_a_full_refresh_of_a_pipeline_is_recognised_and_the_way_on_is_named(
    pipeline, rows_of, tmp_path
):
    """The checkpoints of a flow are numbered; the newest counts."""
    flow = tmp_path / "_checkpoints" / "to_link" / "flow"
    Query(pipeline, flow / "0").run(rows_of(0))
    for number in (1, 2):
        refreshed = Query(pipeline, flow / str(number))
        with pytest.raises(LinkError, match=r"--full-refresh") as caught:
            refreshed.write(rows_of(0))
        assert f"checkpoint {number} in place of 0" in str(caught.value)
        assert f"delete {flow}/{number};" in str(caught.value)
    other = Query(pipeline, tmp_path / "another" / "1")
    with pytest.raises(LinkError, match="belongs to the query"):
        other.write(rows_of(0))
    refreshed.options["reset"] = "true"
    refreshed.run(rows_of(0))
    assert arrived(pipeline) == sorted([*range(20), *range(20)])
