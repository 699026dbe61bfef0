"""The folder of a sweep: made, continued, replaced or refused."""

from __future__ import annotations

import json

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.store import open_folder
from flowcontrol.experiments.sweep.variants import check_variants

ONE = {"stages.sink.service_rate": "100,200"}
OTHER = {"stages.sink.service_rate": "100,300"}


@pytest.fixture
def open_it(plan, tmp_path):
    """A function that opens the folder for a sweep, and closes it again."""

    def open_one(vary, *, named=True, overwrite=False, finished=None, **more):
        made = plan(vary, **more)
        variants = check_variants(made)
        folder = open_folder(tmp_path / "out", made, variants, named=named, overwrite=overwrite)
        if finished is not None:
            folder.mark(finished=finished)
        folder.close()
        return folder

    return open_one


def test_a_new_folder_says_what_it_is(open_it, tmp_path):
    folder = open_it(ONE)
    assert not folder.is_resumed
    found = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert (found["variants"], found["finished"], found["scenario"]) == (2, False, "chain")
    assert found["varied"] == {"stages.sink.service_rate": "sink_service_rate"}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_the_same_sweep_goes_on(open_it, finished, named):
    first = open_it(ONE, finished=finished)
    again = open_it(ONE, named=named)
    assert again.is_resumed
    assert again.identity == first.identity


def test_the_order_of_values_does_not_make_another_sweep(open_it):
    open_it(ONE)
    assert open_it({"stages.sink.service_rate": "200,100"}).is_resumed


@pytest.mark.parametrize(
    "more", [{"replications": 2}, {"vary": {**ONE, "duration_s": "10"}}, {"vary": OTHER}]
)
@pytest.mark.parametrize(("finished", "word"), [(False, "unfinished"), (True, "a finished")])
def test_another_sweep_is_refused_and_kept(open_it, tmp_path, more, finished, word):
    open_it(ONE, finished=finished)
    (tmp_path / "out" / "results").mkdir()
    vary = more.get("vary", ONE)
    more = {key: value for key, value in more.items() if key != "vary"}
    with pytest.raises(ScenarioError) as caught:
        open_it(vary, **more)
    for text in ("--out", word, "2 variants over stages.sink.service_rate", "--overwrite"):
        assert text in str(caught.value)
    assert (tmp_path / "out" / "results").is_dir()
    assert open_it(ONE).is_resumed


def test_a_finished_one_is_replaced_where_no_folder_was_named(open_it, tmp_path):
    open_it(ONE, finished=True)
    (tmp_path / "out" / "results").mkdir()
    assert not open_it(OTHER, named=False).is_resumed
    assert not (tmp_path / "out" / "results").exists()
    assert open_it(OTHER).is_resumed


def test_an_unfinished_one_is_not(open_it):
    open_it(ONE, finished=False)
    with pytest.raises(ScenarioError, match="unfinished"):
        open_it(OTHER, named=False)


@pytest.mark.parametrize("vary", [ONE, OTHER])
def test_overwrite_replaces_whatever_sweep_there_is(open_it, tmp_path, vary):
    open_it(ONE, finished=True)
    (tmp_path / "out" / "results").mkdir()
    (tmp_path / "out" / "report.html").touch()
    assert not open_it(vary, overwrite=True).is_resumed
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", "sweep.json"}


def test_another_version_makes_another_sweep(open_it, monkeypatch):
    open_it(ONE)
    monkeypatch.setattr("flowcontrol.experiments.sweep.store.rules_version", lambda *_: "99")
    with pytest.raises(ScenarioError, match=r"by version 0\.1"):
        open_it(ONE)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_anything_else_is_refused(open_it, tmp_path, overwrite):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text("{}")
    with pytest.raises(ScenarioError, match="not a sweep"):
        open_it(ONE, overwrite=overwrite)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"run.json"}


def test_a_file_is_no_folder(open_it, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ScenarioError, match="is a file"):
        open_it(ONE)


@pytest.mark.parametrize("name", [".lock", ".sweep.json.x1"])
def test_what_a_kill_at_the_very_start_leaves_is_no_obstacle(open_it, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).touch()
    assert not open_it(ONE).is_resumed


def test_a_kill_while_a_sweep_is_replaced_leaves_nobody_s_sweep(open_it, tmp_path, monkeypatch):
    open_it(ONE, finished=True)
    (tmp_path / "out" / "results").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_it(OTHER, overwrite=True)
    assert not open_it(ONE).is_resumed
    assert not (tmp_path / "out" / "results").exists()


def test_two_processes_do_not_share_a_folder(plan, tmp_path):
    made = plan(ONE)
    variants = check_variants(made)
    first = open_folder(tmp_path, made, variants, named=True, overwrite=False)
    with pytest.raises(ScenarioError, match="another process"):
        open_folder(tmp_path, made, variants, named=True, overwrite=False)
    first.close()
    open_folder(tmp_path, made, variants, named=True, overwrite=False).close()
