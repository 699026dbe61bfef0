"""A batch that runs again is known by its rows' place in the source, not by its number alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowcontrol.errors import LinkError
from flowcontrol.link.checkpoint import Checkpoint


def rows_of(dry, first, count=10):
    return dry.source_rows("a", first, [0] * count, 10)


@pytest.fixture
def pipeline(make, dry):
    """A link through which two batches have gone."""
    made = make(channels=1)
    made.sender("a", [rows_of(dry, 0), rows_of(dry, 10)])
    made.receiver()
    made.drain()
    return made


def put_back(query) -> None:
    """Put the checkpoint back by one batch: offsets and commits of the last one are gone."""
    query.kill()
    query.planned = query.done = query.done - 1


@pytest.mark.parametrize("is_connect", [False, True])
def test_a_checkpoint_one_batch_back_with_new_rows_is_refused(pipeline, dry, verify, is_connect):
    query = pipeline.senders["a"]
    query.is_connect = is_connect
    put_back(query)
    old, query.batches[1] = query.batches[1], rows_of(dry, 10, 20)
    here = "20 rows" if is_connect else "the source's offsets"
    with pytest.raises(LinkError, match=f"runs batch 1 again with other rows: it has {here}"):
        for _ in range(10):
            query.advance()
    query.batches[1] = old
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize("is_connect", [False, True])
def test_a_checkpoint_one_batch_back_with_the_same_rows_changes_nothing(
    pipeline, dry, verify, is_connect
):
    query = pipeline.senders["a"]
    query.is_connect = is_connect
    put_back(query)
    query.batches.append(rows_of(dry, 20))
    pipeline.drain()
    assert pipeline.receivers[0].rows.num_rows == 30
    verify.check_pipeline(pipeline)


def test_a_batch_that_was_committed_and_not_said_is_known_too(pipeline, dry, verify):
    """Killed between the exchange log and the ledger."""
    query = pipeline.senders["a"]
    query.batches.append(rows_of(dry, 20))
    pipeline.arm("a", "before-ledger")
    for _ in range(20):
        query.advance()
    assert not pipeline.is_armed
    old, query.batches[2] = query.batches[2], rows_of(dry, 20, 15)
    query.kill()
    query.done = query.planned = 1
    with pytest.raises(LinkError, match="runs batch 2 again with other rows"):
        for _ in range(10):
            query.advance()
    query.batches[2] = old
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- Spark's checkpoint


def write(root: Path, name: str, *lines: object) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))


def offsets(root: Path, batch: int, *ends: object, time: int = 1) -> None:
    write(root, f"offsets/{batch}", "v1", {"batchTimestampMs": time}, *ends)


def a_file(name: str, number: int) -> dict[str, object]:
    return {"path": f"file:/in/{name}", "timestamp": 5, "batchId": number}


def test_the_offsets_identify_a_batch_and_its_time_does_not(tmp_path):
    checkpoint = Checkpoint(f"file:{tmp_path}")
    assert checkpoint.digest(0) is None
    offsets(tmp_path, 0, {"orders": {"0": 5, "1": 7}}, "-")
    first = checkpoint.digest(0)
    assert first is not None
    offsets(tmp_path, 0, '{"orders": {"1":7,  "0":5}}', "-", time=99)
    assert checkpoint.digest(0) == first
    offsets(tmp_path, 0, {"orders": {"0": 5, "1": 8}}, "-")
    assert checkpoint.digest(0) != first


def test_a_source_of_files_counts_only_so_its_files_are_looked_up(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    offsets(tmp_path, 0, {"logOffset": 0})
    offsets(tmp_path, 1, {"logOffset": 2})
    assert checkpoint.digest(1) is None  # the files are not there
    write(tmp_path, "sources/0/1", "v1", a_file("a", 1))
    write(tmp_path, "sources/0/2", "v1", a_file("c", 2), a_file("b", 2))
    first = checkpoint.digest(1)
    (tmp_path / "sources/0/2").unlink()
    compact = [a_file("z", 0), a_file("a", 1), a_file("b", 2), a_file("c", 2)]
    write(tmp_path, "sources/0/2.compact", "v1", *compact)
    assert checkpoint.digest(1) == first
    write(tmp_path, "sources/0/2", "v1", a_file("c", 2), a_file("b", 2), a_file("d", 2))
    assert checkpoint.digest(1) != first


def test_offsets_of_another_version_identify_nothing(tmp_path):
    write(tmp_path, "offsets/0", "v9", {"batchTimestampMs": 1}, {"orders": 5})
    assert Checkpoint(str(tmp_path)).digest(0) is None
