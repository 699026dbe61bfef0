"""``flowcontrol link``: what it prints, what it refuses, and what it changes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from flowcontrol.cli.main import main
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.link import Link
from flowcontrol.link.settings import read_settings

ACTIONS = [*("create", "show", "alter", "remove-receiver", "remove-sender", "move", "delete")]


@pytest.fixture
def pipeline(make, dry):
    made = make()
    made.sender("events", [dry.source_rows("events", 0, [0, 1] * 5)])
    made.receiver("main")
    made.receiver("audit")
    made.drain()
    return made


def test_show_prints_settings_and_members(pipeline, capsys):
    assert main(["link", "show", str(pipeline.storage)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == f"link {pipeline.storage}"
    assert "  key                  none" in lines
    assert "  buffer_bytes         1024 (1 KiB)" in lines
    assert "  columns              source string, number long, channel long, text string" in lines
    assert max(len(line) for line in lines[1:]) <= 80
    members = [line.split() for line in lines[-5:]]
    assert members[0][:2] == ["events", "idle"]
    assert members[0][2] == "10"
    assert members[2][:3] == ["receiver", "state", "unread"]
    assert [line[:4] for line in members[3:]] == [
        ["audit", "0-1", "idle", "0"], ["main", "0-1", "idle", "0"]
    ]  # fmt: skip
    assert main(["link", "show", str(pipeline.storage), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {**found, "path": str(pipeline.storage)}
    assert found["settings"]["buffer_bytes"] == 1024
    assert [one["backlog_rows"] for one in found["receivers"]] == [0, 0]
    assert found["disk_bytes"]["exchange"] > 0


def test_a_file_that_goes_while_it_is_counted_is_no_error(pipeline, monkeypatch):
    before = pipeline.link.describe()["disk_bytes"]
    real = Storage.files

    def late(self):
        return [*real(self), ("gone.parquet", 0.0)]

    monkeypatch.setattr(Storage, "files", late)
    assert pipeline.link.describe()["disk_bytes"] == before


def test_every_action_explains_itself(capsys):
    for action in ACTIONS:
        with pytest.raises(SystemExit) as ended:
            main(["link", action, "--help"])
        assert ended.value.code == 0
        assert f"example: flowcontrol link {action} /lake/links/orders" in capsys.readouterr().out


def test_a_link_is_created_once(tmp_path, capsys):
    path = str(tmp_path / "link")
    settings = ["--set", "key=a,b", "--set", "channels=4", "--set", "floating_buffers=0"]
    assert main(["link", "create", path, *settings]) == 0
    assert "of each sender at most 32 MiB are in flight" in capsys.readouterr().out
    assert main(["link", "create", str(tmp_path / "grows")]) == 0
    assert "of each sender at most 256 MiB are in flight" in capsys.readouterr().out
    found = read_settings(Link(path).storage)
    assert (found.key, found.channels, found.floating_buffers) == (("a", "b"), 4, 0)
    assert main(["link", "create", path]) == 2
    assert "a link is there already" in capsys.readouterr().err
    assert main(["link", "create", str(tmp_path / "new"), "--set", "chanels=4"]) == 2
    assert "chanels is not a setting of a link" in capsys.readouterr().err
    assert main(["link", "create", str(tmp_path / "new"), "--set", "channels=0"]) == 2
    assert not (tmp_path / "new").exists()


def test_show_of_a_link_that_nobody_has_used(tmp_path, capsys):
    Link(tmp_path / "link", key=["a", "b"])
    assert main(["link", "show", str(tmp_path / "link")]) == 0
    assert "  key                  a, b\n" in capsys.readouterr().out


def test_a_receiver_is_removed(pipeline, capsys):
    path = str(pipeline.storage)
    assert main(["link", "remove-receiver", path, "adit"]) == 2
    assert "has no receiver 'adit': its receivers are: audit, main" in capsys.readouterr().err
    assert main(["link", "remove-receiver", path, "audit"]) == 0
    assert capsys.readouterr().out.startswith("receiver audit is removed")
    assert main(["link", "show", path]) == 0
    assert "audit" not in capsys.readouterr().out


def test_settings_are_altered(pipeline, capsys):
    path = str(pipeline.storage)
    altered = ["--set", "detach_after_bytes=1gb", "--set", "target_batch_s=2.5"]
    assert main(["link", "alter", path, *altered]) == 0
    assert capsys.readouterr().out == ("detach_after_bytes is 1073741824\ntarget_batch_s is 2.5\n")
    assert main(["link", "alter", path, "--set", "detach_after_bytes=none"]) == 0
    settings = read_settings(pipeline.storage)
    assert (settings.detach_after_bytes, settings.target_batch_s) == (None, 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("detach_after_bytes", "--set detach_after_bytes: needs NAME=VALUE"),
        ("detach_after_bytes=-1", "detach_after_bytes: '-1' is not a size of memory"),
        ("target_batch_s=soon", "target_batch_s is 'soon': needs seconds"),
        ("channels=1", "channels is 1, it has 2, and there can only be more"),
    ],
)
def test_what_cannot_be_altered_is_refused(pipeline, capsys, text, message):
    assert main(["link", "alter", str(pipeline.storage), "--set", text]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "action",
    [
        ["show"],
        ["alter", "--set", "spill_bytes=1"],
        ["remove-receiver", "main"],
        ["remove-sender", "a"],
        ["move", "x"],
        ["delete"],
    ],
)
def test_a_path_that_is_no_link_is_refused_and_stays_as_it_is(tmp_path, capsys, action):
    path = str(tmp_path / "none")
    assert main(["link", action[0], path, *action[1:]]) == 2
    assert "there is no link here (no file link.json)" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_it_is_a_command(tmp_path):
    command = [sys.executable, "-m", "flowcontrol", "link", "show", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
