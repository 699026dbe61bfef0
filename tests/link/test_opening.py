"""Only stating what a link is makes one; opening writes nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from flowcontrol.errors import FlowControlError, LinkError
from flowcontrol.link.link import Link
from flowcontrol.link.settings import DEFAULTS, read_settings, schema_of
from flowcontrol.link.source import LinkSource

ROWS = T.StructType([T.StructField("id", T.LongType()), T.StructField("text", T.StringType())])


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_path_alone_makes_nothing(tmp_path):
    link = Link(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()
    with pytest.raises(LinkError, match="typo: there is no link yet: its sender makes it with its"):
        _ = link.settings
    with pytest.raises(LinkError, match="there is no link yet"):
        link.alter(spill_bytes=1)
    with pytest.raises(LinkError, match="no receiver 'main': its receivers are: none"):
        link.remove_receiver("main")
    assert not (tmp_path / "typo").exists()


def test_a_receiver_that_starts_first_waits_and_makes_nothing(tmp_path):
    options = {"path": str(tmp_path / "link"), "wait_s": "0"}
    with pytest.raises(LinkError, match=r"link: there is no link, after waiting for 0 s\. Start"):
        LinkSource(options).schema()
    assert not (tmp_path / "link").exists()


def test_the_sender_of_a_receiver_that_opened_first_keeps_its_key(tmp_path):
    receiver = Link(tmp_path / "link")
    sender = Link(tmp_path / "link", key="id", channels=4)
    sender.note_schema(ROWS)
    assert receiver.settings == sender.settings
    assert receiver.settings.key == ("id",)


def test_a_sender_makes_it_with_the_columns_of_its_rows(tmp_path):
    link = pickle.loads(pickle.dumps(Link(tmp_path / "link")))
    settings = link.note_schema(ROWS)
    assert schema_of(settings.schema) == ROWS
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS
    assert read_settings(link.storage) == settings


@pytest.mark.parametrize(
    "stated", [{"channels": 2}, {"key": "id"}, {"schema": ROWS}, {"spill_bytes": 0}]
)
def test_any_statement_makes_it(tmp_path, stated):
    Link(tmp_path / "link", **stated)
    assert (tmp_path / "link" / "link.json").exists()


@pytest.mark.parametrize("stated", [{}, {"channels": 2}], ids=["opened", "stated"])
class TestWhatIsThereAlready:
    """Something else stands in the folder, and is left as it is."""

    def test_a_delta_table(self, tmp_path, stated):
        deltalake.write_deltalake(str(tmp_path), pa.table({"a": [1]}))
        before = everything(tmp_path)
        with pytest.raises(LinkError, match="not empty and holds no link: found a Delta table"):
            Link(tmp_path, **stated)
        assert everything(tmp_path) == before

    def test_files(self, tmp_path, stated):
        for name in ("a.csv", "b", "c", "d"):
            (tmp_path / name).write_text("1")
        before = everything(tmp_path)
        with pytest.raises(LinkError, match=r"holds no link: found a\.csv, b, c, \.\.\.\. Nothing"):
            Link(tmp_path, **stated)
        assert everything(tmp_path) == before

    def test_a_link_that_has_lost_its_file(self, make, dry, tmp_path, stated):
        pipeline = make()
        pipeline.sender("a", [dry.source_rows("a", 0, [0, 1])])
        pipeline.drain()
        folder = Path(str(pipeline.storage))
        (folder / "link.json").unlink()
        before = everything(folder)
        with pytest.raises(LinkError, match=r"tables are here \(exchange, ledger\), but its link"):
            Link(folder, **stated)
        assert everything(folder) == before

    @pytest.mark.parametrize("below", ["", "/link", "/deep/link"])
    def test_a_file(self, tmp_path, stated, below):
        (tmp_path / "file").write_text("1")
        with pytest.raises(FlowControlError, match=r"file.*: this is a file, or lies below one"):
            Link(f"{tmp_path}/file{below}", **stated)
        assert (tmp_path / "file").read_text() == "1"


def test_what_a_killed_maker_left_is_in_nobodys_way(tmp_path):
    (tmp_path / "link.json.0123abcd.tmp").write_text("{")
    assert Link(tmp_path, channels=2).settings.channels == 2


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    def full(path, mode=0o777, parents=False, exist_ok=False):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(LinkError, match=r"link: link\.json cannot be written: .*No space left"):
        Link(tmp_path / "link", channels=2)
