"""One owner at a time, and no kill that leaves a folder which nobody can use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.folders import Kind, OwnedFolder, open_owned

KIND = Kind("toy", "toy.json", "toy", frozenset())
DRIVER = Path(__file__).with_name("folders_driver.py")


def steps(opener: str, mode: str, left: str, folder: Path) -> list[dict[str, Any]]:
    """Return what came of a start that was killed, or held up, at each of its steps."""
    command = [sys.executable, str(DRIVER), opener, str(folder), mode, left]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [one["step"] for one in found] == list(range(1, len(found) + 1))
    return found


@pytest.fixture(params=["run", "toy"])
def opener(request: pytest.FixtureRequest) -> str:
    """What is opened: the folder of a run, or one of another kind."""
    return str(request.param)


def test_a_replacement_that_is_killed_is_begun_again(opener: str, tmp_path: Path) -> None:
    found = steps(opener, "kills", "finished", tmp_path / "x")
    kept = [one["keep"] for one in found if one["keep"]["how"] == "refused"]
    begun = [one["keep"] for one in found if one["keep"]["how"] != "refused"]
    # Until something of it is gone all of it is there, and is kept unless it may be replaced.
    assert all(end["was_whole"] and end["is_whole"] for end in kept)
    assert all(end["how"] == "owned" and end["is_new"] for end in begun)
    assert all(one["replace"]["how"] == "owned" and one["replace"]["is_new"] for one in found)
    assert len(kept) >= 5  # look, lock, write and rename the mark
    assert sum(not end["was_whole"] for end in begun) >= 8  # three files and three folders


def test_a_start_that_is_killed_is_begun_again(opener: str, tmp_path: Path) -> None:
    found = steps(opener, "kills", "nothing", tmp_path / "x")
    assert all(one[how]["how"] == "owned" for one in found for how in ("keep", "replace"))
    assert all(one[how]["is_new"] for one in found for how in ("keep", "replace"))
    assert len(found) >= 5


@pytest.mark.parametrize("left", ["finished", "nothing"])
def test_of_two_starts_one_owns_the_folder(opener: str, left: str, tmp_path: Path) -> None:
    found = steps(opener, "pauses", left, tmp_path / "x")
    name = "run.json" if opener == "run" else "toy.json"
    for one in found:
        assert {one["first"], one["second"]} == {"owned", "refused"}, one
        owner = "first" if one["first"] == "owned" else "second"
        assert one["after"] == sorted([owner, name]), one
    # The one that is held up is refused if it was held up before it had the lock.
    assert {one["first"] for one in found} == {"owned", "refused"}


def open_toy(root: Path | str, *, reason: str | None = None) -> OwnedFolder:
    return open_owned(
        root, KIND, {"toy": 1}, is_continued=lambda _: False, why_kept=lambda _: reason
    )


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    held = open_toy(tmp_path / "x")
    with pytest.raises(ScenarioError, match="another process runs in this folder"):
        open_toy(tmp_path / "x")
    held.close()
    open_toy(tmp_path / "x").close()


def test_a_refusal_lets_go_of_the_folder(tmp_path: Path) -> None:
    open_toy(tmp_path).close()
    with pytest.raises(ScenarioError, match="it is mine"):
        open_toy(tmp_path, reason="it is mine")
    open_toy(tmp_path).close()


def test_a_folder_that_is_removed_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the lock of a file that is gone holds nothing."""
    root, lock = tmp_path / "x", __import__("fcntl").flock
    removed = []

    def remove_and_lock(handle: Any, how: int) -> None:
        if not removed:
            removed.append((root / ".lock").unlink())
        lock(handle, how)

    monkeypatch.setattr("fcntl.flock", remove_and_lock)
    held = open_toy(root)
    assert removed
    with pytest.raises(ScenarioError, match="another process"):
        open_toy(root)
    held.close()


def test_links_in_it_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "thesis.txt").write_text("mine")
    root = tmp_path / "x"
    open_toy(root).close()
    (root / "folder").symlink_to(tmp_path / "elsewhere")
    (root / "file").symlink_to(tmp_path / "elsewhere" / "thesis.txt")
    open_toy(root).close()
    assert {path.name for path in root.iterdir()} == {".lock", "toy.json"}
    assert (tmp_path / "elsewhere" / "thesis.txt").read_text() == "mine"


# ---------------------------------------------------------------------- places


@pytest.mark.parametrize("below", ["", "deep", "deep/er"])
def test_a_file_in_the_way_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ScenarioError) as caught:
        open_toy(tmp_path / "file" / below)
    assert f"{tmp_path / 'file'} is a file" in str(caught.value)
    assert "name a" in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_means_what_it_means_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for place, meant in {
        "~/runs/one": tmp_path / "home" / "runs" / "one",
        f"file:{tmp_path}/two": tmp_path / "two",
        f"file://{tmp_path}/three": tmp_path / "three",
        "four": tmp_path / "four",
    }.items():
        folder = open_toy(place)
        folder.close()
        assert folder.root == meant
    assert {path.name for path in tmp_path.iterdir()} == {"home", "two", "three", "four"}


@pytest.mark.parametrize("place", ["s3://bucket/x", "file://elsewhere/x", "dbfs:/x", "~nobody-/x"])
def test_a_place_that_is_no_folder_of_this_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError) as caught:
        open_toy(place)
    assert [problem.place for problem in caught.value.problems] == ["--out"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/proc/nothing/x", "/dev/null/x"])
def test_a_place_where_nothing_can_be_made_is_refused(place: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        open_toy(Path(place))
    assert place in str(caught.value)
    assert [problem.place for problem in caught.value.problems] == ["--out"]


def test_links_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ScenarioError, match="name another folder"):
        open_toy(tmp_path / "a")


@pytest.mark.parametrize("call", ["mkdir", "open", "flock", "replace"])
@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_what_the_system_refuses_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: type[OSError]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error(30, "Read-only file system", str(tmp_path / "x"))

    target = {"mkdir": "pathlib.Path.mkdir", "open": "pathlib.Path.open"}
    target |= {"flock": "fcntl.flock", "replace": "pathlib.Path.replace"}
    monkeypatch.setattr(target[call], fail)
    with pytest.raises(ScenarioError, match=r"cannot be made or written to \(.*Read-only"):
        open_toy(tmp_path / "x")
    monkeypatch.undo()
    open_toy(tmp_path / "x").close()


def test_a_replacement_that_fails_half_way_is_refused_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_toy(tmp_path)
    (tmp_path / "rows").mkdir()
    folder.mark(finished=True)
    folder.close()

    def fail(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(ScenarioError, match=r"rows: Permission denied"):
        open_toy(tmp_path)
    monkeypatch.undo()
    open_toy(tmp_path, reason="it is mine").close()  # what is half gone is nobody's
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "toy.json"}
