"""The folder of a run: made, resumed, replaced, or refused and left as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.live.folder import RunFolder, RunPaths, open_folder
from flowcontrol.records import FOLDERS
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.version import OF_LIVE_RUN, rules_version

MAPPING: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 1,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 200},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}
SMALL = parse_scenario(MAPPING)
LONGER = parse_scenario({**MAPPING, "name": "longer", "duration_s": 2})

Tree = dict[str, bytes]


def tree(root: Path) -> Tree:
    """Everything in a folder but its lock."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def leave_run(root: Path, scenario: Scenario = SMALL, *, finished: bool) -> str:
    """Leave a run in a folder, with something that it wrote; return its identity."""
    folder = open_folder(root, scenario, named=True, overwrite=False)
    (root / "links").mkdir()
    (root / "links" / "rows").write_text("what the run has written")
    if finished:
        folder.mark(finished=True)
    folder.close()
    return folder.run_id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "run"


@pytest.fixture
def opened() -> Any:
    """A function that opens a folder, closed when the test ends."""
    held: list[RunFolder] = []

    def open_it(
        root: Path, scenario: Scenario = SMALL, *, named: bool = True, overwrite: bool = False
    ) -> RunFolder:
        held.append(open_folder(root, scenario, named=named, overwrite=overwrite))
        return held[-1]

    yield open_it
    for folder in held:
        folder.close()


Opened = Callable[..., RunFolder]


def test_a_folder_that_is_not_there_is_made(root: Path, opened: Opened) -> None:
    folder = opened(root)
    assert not folder.is_resumed
    noted = json.loads((root / "run.json").read_text())
    assert noted == {
        "run_id": folder.run_id,
        "finished": False,
        "scenario": SMALL.canonical(),
        "rules": rules_version(*OF_LIVE_RUN),
        "clock": "live",
    }


def test_an_empty_folder_is_taken(root: Path, opened: Opened) -> None:
    root.mkdir(parents=True)
    assert not opened(root).is_resumed


@pytest.mark.parametrize("left", [(".lock",), (".lock", ".run.json.x1y2")])
def test_a_run_that_was_killed_at_its_very_start_is_begun_again(
    root: Path, opened: Opened, left: tuple[str, ...]
) -> None:
    root.mkdir(parents=True)
    for name in left:
        (root / name).write_text("")
    assert not opened(root).is_resumed


@pytest.mark.parametrize("named", [True, False])
def test_an_unfinished_run_of_the_same_scenario_goes_on(
    root: Path, opened: Opened, named: bool
) -> None:
    run_id = leave_run(root, finished=False)
    before = tree(root)
    (root / "stop").touch()
    folder = opened(root, named=named)
    assert (folder.is_resumed, folder.run_id) == (True, run_id)
    assert tree(root) == before  # and the request to stop is gone


def test_an_unfinished_run_goes_on_although_it_may_be_replaced(root: Path, opened: Opened) -> None:
    run_id = leave_run(root, finished=False)
    assert opened(root, overwrite=True).run_id == run_id


@pytest.mark.parametrize("rules", ["0.1.0+0123456789ab", None])
def test_an_unfinished_run_does_not_go_on_under_other_rules(
    root: Path, opened: Opened, rules: str | None
) -> None:
    run_id = leave_run(root, finished=False)
    noted = json.loads((root / "run.json").read_text())
    noted["rules"] = rules
    if rules is None:  # as an older version wrote it
        del noted["rules"]
    (root / "run.json").write_text(json.dumps(noted))
    before = tree(root)
    with pytest.raises(ScenarioError) as caught:
        open_folder(root, SMALL, named=True, overwrite=False)
    for text in ("other rules", rules or "unknown", rules_version(*OF_LIVE_RUN), "--overwrite"):
        assert text in str(caught.value)
    assert tree(root) == before
    folder = opened(root, overwrite=True)
    assert not folder.is_resumed
    assert folder.run_id != run_id
    assert set(tree(root)) == {"run.json"}


@pytest.mark.parametrize("named", [True, False])
def test_an_unfinished_run_of_another_scenario_is_kept(root: Path, named: bool) -> None:
    leave_run(root, LONGER, finished=False)
    before = tree(root)
    with pytest.raises(ScenarioError, match="unfinished run of another scenario, 'longer'"):
        open_folder(root, SMALL, named=named, overwrite=False)
    assert tree(root) == before


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"duration_s": 2}, "another scenario: duration_s is 2 there and 1 here; name another"),
        (
            {"stages": [MAPPING["stages"][0], {"name": "sink", "service_rate": 60}]},
            "another scenario: stages.sink.service_rate[0][0].rate is 60 there and 50 here;",
        ),
        (
            {"duration_s": 2, "seed": 5, "round_ms": 100, "sample_interval_s": 0.5},
            "here, and 1 more; name another",
        ),
    ],
)
def test_of_an_unfinished_run_of_its_own_name_is_said_what_differs(
    root: Path, changes: dict[str, Any], text: str
) -> None:
    leave_run(root, parse_scenario({**MAPPING, **changes}), finished=False)
    with pytest.raises(ScenarioError) as caught:
        open_folder(root, SMALL, named=False, overwrite=False)
    assert text in str(caught.value)


def test_an_unfinished_run_on_the_virtual_clock_is_begun_anew_after_an_upgrade(
    root: Path, opened: Opened
) -> None:
    """It left nothing to go on from, so no other rules can read that differently."""
    folder = open_folder(root, SMALL, named=True, overwrite=False, clock="virtual")
    folder.close()
    noted = json.loads((root / "run.json").read_text())
    (root / "run.json").write_text(json.dumps({**noted, "rules": "of another version"}))
    assert not opened(root).is_resumed


def test_an_unfinished_live_run_is_not_begun_anew_on_the_virtual_clock(root: Path) -> None:
    """Nor is its folder taken over: it has something to go on from."""
    open_folder(root, SMALL, named=False, overwrite=False).close()
    before = tree(root)
    with pytest.raises(ScenarioError, match=r"run of this scenario on the live clock.*--overwrite"):
        open_folder(root, SMALL, named=False, overwrite=False, clock="virtual")
    assert tree(root) == before


def test_a_finished_run_in_a_folder_that_was_named_is_kept(root: Path) -> None:
    leave_run(root, finished=True)
    before = tree(root)
    with pytest.raises(ScenarioError, match=r"holds a finished run; .* add --overwrite") as caught:
        open_folder(root, SMALL, named=True, overwrite=False)
    assert [problem.place for problem in caught.value.problems] == ["--out"]
    assert tree(root) == before


@pytest.mark.parametrize(
    ("named", "overwrite", "finished", "scenario"),
    [
        (True, True, True, SMALL),
        (True, True, True, LONGER),
        (True, True, False, LONGER),
        (False, False, True, SMALL),
        (False, False, True, LONGER),
    ],
)
def test_a_run_that_may_be_replaced_is_gone(
    root: Path, opened: Opened, named: bool, overwrite: bool, finished: bool, scenario: Scenario
) -> None:
    run_id = leave_run(root, scenario, finished=finished)
    folder = opened(root, named=named, overwrite=overwrite)
    assert not folder.is_resumed
    assert folder.run_id != run_id
    assert set(tree(root)) == {"run.json"}


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", "run.json"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_with_anything_else_in_it_is_refused(
    root: Path, name: str, overwrite: bool
) -> None:
    root.mkdir(parents=True)
    (root / name).write_text('{"mine": 1}')
    before = tree(root)
    with pytest.raises(ScenarioError, match="holds something that is not a run"):
        open_folder(root, SMALL, named=True, overwrite=overwrite)
    assert tree(root) == before
    assert not (root / ".lock").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ScenarioError, match="is a file; name a folder"):
        open_folder(tmp_path / "file", SMALL, named=True, overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_in_use_is_left_alone(root: Path, opened: Opened, overwrite: bool) -> None:
    opened(root)
    before = tree(root)
    with pytest.raises(ScenarioError, match="another process runs in this folder"):
        open_folder(root, SMALL, named=True, overwrite=overwrite)
    assert tree(root) == before


def test_a_finished_run_that_somebody_replaces_is_left_alone(root: Path, opened: Opened) -> None:
    leave_run(root, finished=True)
    opened(root, overwrite=True)
    with pytest.raises(ScenarioError, match="another process"):
        open_folder(root, SMALL, named=False, overwrite=True)


def test_nothing_of_a_run_lies_in_the_folder_of_a_table() -> None:
    """``checkpoints`` is one: what Spark keeps of the queries is elsewhere."""
    paths = RunPaths("/run")
    job = build_physical_graph(SMALL)
    places = [paths.checkpoint("source"), paths.ended_file("source"), paths.replay("source")]
    places += [paths.ledger(job.links[0]), paths.exchange(job.links[0])]
    places += [paths.stop_file, paths.failure_file]
    tops = {place.relative_to("/run").parts[0] for place in places}
    assert tops == {"queries", "replay", "links", "stop", "failure.txt"}
    assert not tops & FOLDERS


def test_no_output_lies_where_a_run_keeps_its_state() -> None:
    paths = RunPaths("/run")
    for place in (paths.checkpoint("a"), paths.replay("a"), paths.stop_file, paths.root / "links"):
        stages = [MAPPING["stages"][0], {**MAPPING["stages"][1]}]
        folder = str(place.relative_to("/run"))
        stages[1]["output"] = {"format": "delta", "path": folder}
        with pytest.raises(ScenarioError, match="reserved for the results of the run"):
            parse_scenario({**MAPPING, "stages": stages})
