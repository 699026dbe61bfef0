"""From the ledger of a real link to a scenario that predicts it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flowcontrol.calibration.link_ledger import _Window, _written_per_s, fit_link
from flowcontrol.calibration.predict import beside, bottleneck, predict
from flowcontrol.cli.main import main
from flowcontrol.errors import ScenarioError
from flowcontrol.link.monitoring.history import Step
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job
from modules import ROOT

LINK = ROOT / "bench" / "spark_progress" / "link-link"


def test_a_real_link_is_predicted() -> None:
    draft = fit_link(LINK, LINK.parent / "link.jsonl")
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict(tables, scenario, draft.warm_up_s))
    assert [row.name for row in rows] == [
        "rate_out", "backpressured_ms_per_s", "rate_in", "busy_ms_per_s", "in_flight_buffers",
    ]  # fmt: skip
    assert [row for row in rows if not row.is_within] == []
    assert draft.bottleneck == bottleneck(tables, scenario, draft.warm_up_s) == "main"
    assert any("are beside its rows" in note for note in draft.notes)


@pytest.mark.parametrize(("commits", "expected"), [(range(11), 100.0), (range(5), 50.0)])
def test_a_batch_counts_for_the_time_before_its_commit(commits: range, expected: float) -> None:
    """100 rows each second: 11 commits in 10 s are not 110 rows/s.

    Of a sender that wrote for less than most of the window the whole window counts.
    """
    steps = [Step(number, float(number), {}, "") for number in commits]
    for step in steps:
        step.rows = [{"sender": 0, "receiver": 0, "rows": 100, "bytes": 1}]
    assert _written_per_s(steps, _Window(0.0, 10.0)) == expected


def test_a_ledger_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    shutil.copytree(LINK, tmp_path / "link")
    for file in (tmp_path / "link" / "ledger").glob("sender*.parquet"):
        file.unlink()
    with pytest.raises(ScenarioError, match="--link"):
        fit_link(tmp_path / "link")


def test_a_link_that_is_not_whole_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is cut, a ledger that is a file: status 2, and nothing written."""
    cut, flat = tmp_path / "cut", tmp_path / "flat"
    for link in (cut, flat):
        shutil.copytree(LINK, link)
    file = next((cut / "ledger").glob("receiver*.parquet"))
    file.write_bytes(file.read_bytes()[:50])
    shutil.rmtree(flat / "ledger")
    (flat / "ledger").touch()
    for link in (cut, flat):
        for words in (["calibrate"], ["advise"]):
            out = tmp_path / "out"
            assert main([*words, "--link", str(link), "--out", str(out), "--quiet"]) == 2
            assert "--link: cannot be read" in capsys.readouterr().err
            assert not out.exists()
