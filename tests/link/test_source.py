"""The data source: options that are refused, waiting for a link, news and none, tasks."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as T
from pyspark.sql.streaming.datasource import ReadAllAvailable

from flowcontrol.errors import LinkError
from flowcontrol.link import source as source_module
from flowcontrol.link.link import Link
from flowcontrol.link.sealed_files import FileRows, LinkPartition, share_out
from flowcontrol.link.source import LinkReader, LinkSource, read_options

ROWS = T.StructType([T.StructField("id", T.LongType())])


def a_source(**options: object) -> LinkSource:
    return LinkSource({key: str(value) for key, value in options.items()})


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("channels", "", "channels is '': needs numbers with commas, such as 0,1, or none for all"),
        ("channels", "0,", "channels is '0,': needs numbers"),
        ("channels", "a", "channels is 'a': needs numbers"),
        ("channels", "-1", "channels is '-1': needs numbers"),
        ("channels", "0-3", "channels is '0-3': needs numbers"),
        ("target_batch_s", "fast", "target_batch_s is 'fast': needs a number"),
        ("target_batch_s", "nan", "target_batch_s is 'nan': needs a number"),
        ("target_batch_s", "0.049", "target_batch_s is 0.049: needs seconds, from 0.05 to 3600"),
        ("target_batch_s", "3601", "target_batch_s is 3601: needs seconds"),
        ("target_batch_s", "inf", "target_batch_s is inf: needs seconds"),
        ("partitions", "0", "partitions is 0: needs a whole number, at least 1"),
        ("partitions", "1.5", "partitions is 1.5: needs a whole number"),
        ("partitions", "some", "partitions is 'some': needs a number"),
        ("reset", "yes", "reset is 'yes': needs true or false"),
        ("wait_s", "-1", "wait_s is -1: needs seconds, at least 0"),
        ("wait_s", "inf", "wait_s is inf: needs seconds"),
        ("wait_s", "soon", "wait_s is 'soon': needs a number"),
        ("name", "a/b", "the receiver is called 'a/b': needs 1 to 64 letters"),
        ("name", "", "the receiver is called '': needs"),
        ("name", "x" * 65, "the receiver is called 'x+': needs"),
        ("storage_options", "{", "storage_options is '{': needs JSON"),
        ("storage_options", '{"a": 1}', "storage_options is .* needs JSON, names with texts"),
    ],
)
def test_a_bad_option_is_refused_before_anything_starts(tmp_path, name, value, text):
    Link(tmp_path, schema=ROWS)
    with pytest.raises(LinkError, match=f"the receiver of {tmp_path} is refused: {text}"):
        a_source(path=tmp_path, **{name: value}).schema()


def test_all_bad_options_are_named():
    with pytest.raises(LinkError, match=r"target_batch_s is 0.*; partitions is 0.*; reset is 'x'"):
        read_options({"path": "p", "target_batch_s": "0", "partitions": "0", "reset": "x"})


def test_a_path_is_needed():
    for options in ({}, {"path": ""}):
        with pytest.raises(LinkError, match=r"a link's path is missing: \.option\('path', \.\.\."):
            a_source(**options).schema()


def test_channels_that_the_link_has_not_are_refused(tmp_path):
    Link(tmp_path, schema=ROWS, channels=3)
    assert a_source(path=tmp_path, channels="2,0,2").schema() == ROWS
    with pytest.raises(LinkError, match="channels is 1,3: the link has the channels 0 to 2"):
        a_source(path=tmp_path, channels="3,1").schema()


def test_options_are_read_in_any_case(tmp_path):
    found = read_options(
        {"PATH": str(tmp_path), "Channels": " 2, 0,2", "RESET": "True", "target_Batch_s": "1.5",
         "storage_options": '{"a": "b"}', "partitions": "4", "name": "x", "wait_s": "0"}
    )  # fmt: skip
    assert (str(found.storage), found.storage.options) == (str(tmp_path), {"a": "b"})
    assert (found.channels, found.reset, found.target_s) == ((0, 2), True, 1.5)
    assert (found.partitions, found.name, found.wait_s) == (4, "x", 0)
    bare = read_options({"path": str(tmp_path)})
    assert (bare.channels, bare.reset, bare.target_s, bare.partitions) == (None, False, None, None)
    assert (bare.name, bare.wait_s) == ("main", 60)


# ---------------------------------------------------------------------- a link that is not there


def test_without_a_link_it_waits_and_then_says_what_is_missing(tmp_path):
    began = time.monotonic()
    with pytest.raises(
        LinkError,
        match=r"there is no link, after waiting for 0.2 s. Start its "
        r"sender first, give Link\(..., schema=...\) here, or",
    ):
        a_source(path=tmp_path / "none", wait_s=0.2).schema()
    assert time.monotonic() - began >= 0.2
    assert not (tmp_path / "none").exists()


def test_without_columns_it_waits_and_then_says_what_is_missing(tmp_path):
    Link(tmp_path, channels=2)
    with pytest.raises(LinkError, match=r"the link has no columns yet, after waiting for 0 s"):
        a_source(path=tmp_path, wait_s=0).schema()


def test_it_goes_on_as_soon_as_a_sender_has_brought_the_columns(tmp_path):
    waits = threading.Event()

    def bring():
        waits.wait()
        Link(tmp_path).note_schema(ROWS)

    thread = threading.Thread(target=bring)
    thread.start()
    waits.set()
    assert a_source(path=tmp_path, wait_s=1800).schema() == ROWS
    thread.join()


# ---------------------------------------------------------------------- micro-batches


def test_no_news_is_the_offset_that_was_asked_for(make, dry, monkeypatch):
    """Text and all: Spark compares offsets as texts. It looks for news meanwhile."""
    pipeline = make()
    pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])]).advance()
    reader = pipeline.receiver().open()
    start = reader.initialOffset()
    monkeypatch.setattr(source_module, "LOOK_S", 0.05)
    began = time.monotonic()
    assert reader.latestOffset(start, ReadAllAvailable()) is start
    assert time.monotonic() - began >= 0.05


def test_news_wake_a_reader_that_waits(make, dry, monkeypatch):
    pipeline = make()
    query = pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])])
    query.advance()
    reader = pipeline.receiver().open()
    start = reader.initialOffset()
    monkeypatch.setattr(source_module, "LOOK_S", 60.0)
    thread = threading.Timer(0.1, lambda: [query.advance() for _ in range(3)])
    thread.start()
    end = reader.latestOffset(start, ReadAllAvailable())
    thread.join()
    assert end == {"cursors": {"0": [1, 1]}}


class Turns:
    """A clock that lets the sender go on while the reader sleeps."""

    def __init__(self, sender):
        self.sender, self.now_s, self.slept = sender, 0.0, 0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += max(seconds, 0.01)
        self.slept += 1
        if self.sender is not None:
            self.sender.advance()


def messages_taken(verify, pipeline):
    """Return the messages that each batch consumed."""
    rows = [row for member, row in verify.ledger_rows(pipeline.storage) if "receiver" in member]
    sent: dict[int, int] = {}
    for row in rows:
        sent[row["batch_id"]] = sent.get(row["batch_id"], 0) + row["sent"]
    ends = sorted(set(sent.values()))
    return [later - before for before, later in itertools.pairwise(ends)]


def test_a_batch_gets_all_of_the_pool_that_its_predecessor_freed(make, dry, verify, monkeypatch):
    """The sender waits for buffers: the receiver gives them back before it plans, not with that."""
    pipeline = make(buffer_bytes=2048, floating_buffers=4)  # 2 channels, 2 exclusive each
    sender = pipeline.sender("a", dry.batches_of(2, rows=240, size=1000))
    turns = Turns(sender)
    receiver = pipeline.receiver()
    receiver.open()
    monkeypatch.setattr(source_module, "time", turns)
    monkeypatch.setattr(source_module, "LOOK_S", 1.0)
    while receiver.done < 40 and turns.now_s < 100:
        receiver.advance()
    taken = messages_taken(verify, pipeline)
    assert len(taken) > 20
    assert min(taken[1:20]) >= 7, taken  # of the 8 buffers of the pool
    verify.check_pipeline(pipeline, is_all=False)


def test_a_batch_does_not_wait_long_for_a_sender_that_is_gone(make, dry, verify, monkeypatch):
    pipeline = make(buffer_bytes=2048, floating_buffers=4)
    sender = pipeline.sender("a", dry.batches_of(1, rows=240, size=1000))
    receiver = pipeline.receiver()
    for _ in range(4):
        sender.advance()
    assert receiver.advance()
    turns = Turns(None)
    monkeypatch.setattr(source_module, "time", turns)
    monkeypatch.setattr(source_module, "LOOK_S", 1.0)
    while receiver.advance():
        pass
    assert receiver.done >= 1, "it read no more than its first batch"
    assert 1.0 <= turns.now_s <= 1.1 * (receiver.done + 2)
    assert turns.slept
    verify.check_pipeline(pipeline, is_all=False)


def test_a_reader_whose_driver_is_gone_waits_no_longer(make, dry, monkeypatch):
    pipeline = make()
    pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])]).advance()
    reader = pipeline.receiver().open()
    start = reader.initialOffset()
    monkeypatch.setattr(source_module, "LOOK_S", 60.0)
    reader._parent = -1
    assert reader.latestOffset(start, ReadAllAvailable()) == start


def test_what_an_executor_gets_reads_and_decides_nothing(make, dry):
    pipeline = make()
    pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])])
    receiver = pipeline.receiver()
    pipeline.drain()
    reader = pickle.loads(cloudpickle.dumps(receiver.reader))
    assert reader._receiver is None
    with pytest.raises(TypeError, match="str is not a partition of this source"):
        list(reader.read("0"))


def test_an_executor_loads_no_more_than_it_needs():
    """Spark's worker collects garbage after every task: each module that is loaded costs."""
    heavy = ["pandas", "pydantic", "deltalake", "numba", "plotly"]
    modules = "flowcontrol.link.source, flowcontrol.link.packing"
    code = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# ---------------------------------------------------------------------- tasks


def extents(*rows: int, name: str = "f") -> list[FileRows]:
    return [FileRows(f"{name}{i}", 0, count, 99, (9, 0)) for i, count in enumerate(rows)]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
def test_a_channel_is_read_by_one_task_in_order(partitions):
    channels = [(size, extents(1, 1, size - 2, name=f"c{size}/")) for size in (5, 40, 10, 20)]
    found = share_out(channels, partitions)
    assert len(found) == min(partitions, 4)
    assert [part.number for part in found] == list(range(len(found)))
    for size, own in channels:
        (task,) = [part for part in found if own[0] in part.extents]
        at = task.extents.index(own[0])
        assert task.extents[at : at + 3] == own, size


def test_tasks_are_of_about_equal_size():
    channels = [(size, extents(size)) for size in (8, 7, 6, 5, 4)]
    found = share_out(channels, 2)
    assert sorted(part.rows for part in found) == [13, 17]
    for part in found:
        assert sum(extent.rows for extent in part.extents) == part.rows


def test_nothing_to_read_is_no_task():
    assert share_out([], 4) == []
    assert share_out([(0, [])], 4) == []


def test_a_batch_without_rows_has_no_task(make, dry):
    pipeline = make()
    pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])])
    receiver = pipeline.receiver(partitions=1)
    while not receiver.offsets:
        pipeline.senders["a"].advance()
        receiver.advance()
    offset = json.loads(receiver.offsets[0])
    assert receiver.reader.partitions(offset, offset) == []
    assert len(receiver.reader.partitions({"cursors": {}}, offset)) == 1


def test_a_reader_takes_the_target_of_the_link_or_its_own(tmp_path):
    Link(tmp_path, schema=ROWS, target_batch_s=2)
    for options, target in (({}, 2), ({"target_batch_s": "0.5"}, 0.5)):
        reader = LinkReader({"path": str(tmp_path), "name": f"n{target}", **options}, ROWS)
        assert reader._made()._budget.target_s == target
    assert isinstance(reader._schema, pa.Schema)
    assert LinkPartition(3, 0, []).number == 3
