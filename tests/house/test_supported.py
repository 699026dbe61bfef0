"""docs/reference/supported.md is what scripts/supported.yaml makes, and the matrix can run it."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from flowcontrol.spark.versions import DELTA_UP_TO, OLDEST, parse_version
from modules import load

matrix = load("scripts/matrix.py")
script = load("scripts/supported.py")

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_readme_names_these_versions():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    supported = readme.partition("## Supported versions")[2].partition("\n## ")[0]
    found = re.search(r"Spark ([\d., and]+) with", supported)
    assert found is not None
    assert set(re.findall(r"[\d.]+\d", found[1])) == set(script.supported()["versions"])


def test_versions_are_those_that_setup_cfg_and_the_code_allow():
    found = script.supported()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extra = setup["options.extras_require"]["spark"]
    assert f"delta-spark =={found['delta']}" in extra
    low, high = re.search(r"pyspark >=([\d.]+),<=([\d.]+)", extra).groups()
    versions = [parse_version(version) for version in found["versions"]]
    assert versions == sorted(versions, reverse=True)
    without = [parse_version(name) for name, row in found["versions"].items() if "delta" in row]
    versions = [version for version in versions if version not in without]
    assert DELTA_UP_TO == versions[0] < min(without)
    assert versions[-1] == OLDEST == parse_version(low)
    assert found["versions"][".".join(map(str, versions[0]))]["pyspark"] == high
    for version, row in found["versions"].items():
        assert row["pyspark"].startswith(f"{version}.")
        assert set(row["green"]) <= set(row["modes"]) <= set(found["modes"])


def test_the_tests_that_it_names_are_there():
    for mode in script.supported()["modes"].values():
        for place in (*mode["link"], *mode["job"]):
            assert (ROOT / place).exists(), place


@pytest.mark.parametrize("part", ["link", "job"])
def test_tests_are_left_for_a_cluster(part):
    tests, env = script.supported()["modes"]["cluster"][part], {"FLOWCONTROL_MASTER": "any"}
    done = subprocess.run(
        matrix.chosen(tests, [], env, "--collect-only"), cwd=ROOT, capture_output=True, text=True,
        check=False, env={**os.environ, **matrix.LONG},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout  # 5: none


def test_the_matrix_refuses_a_version_that_it_does_not_know():
    done = subprocess.run(
        [str(ROOT / "scripts" / "matrix.sh"), "3.5"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Spark 3.5 is not in scripts/supported.yaml: 4.3 4.2 4.1 4.0" in done.stderr


@pytest.mark.parametrize(
    ("counts", "is_listed", "status"),
    [((3, 0), True, 0), ((3, 1), True, 1), ((0, 0), True, 1), ((3, 1), False, 0)],
)
def test_only_what_is_listed_as_supported_fails_the_matrix(
    counts, is_listed, status, tmp_path, capsys
):
    passed, failed = counts
    row = {
        "version": "4.0", "pyspark": "4.0.5", "mode": "cluster", "part": "link", "skipped": 2,
        "not supported": 1, "is_listed": is_listed, "passed": passed, "failed": failed,
        "names": ["a::b"] * failed,
    }  # fmt: skip
    file = tmp_path / "results.json"
    file.write_text(json.dumps([row]))
    assert matrix.main(["table", str(file)]) == status
    shown = capsys.readouterr().out
    assert re.search(rf"4\.0\.5 +cluster +link +{passed} +{failed} +2 +1$", shown, re.MULTILINE)
    assert shown.count("failed: a::b") == failed


REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_good"/>
<testcase classname="tests.a.test_b" name="test_skipped"><skipped/></testcase>
<testcase classname="tests.a.test_b" name="test_late"><failure>Python worker failed to connect back.
</failure></testcase>
<testcase classname="tests.a.test_b" name="test_wrong"><error>assert 1 == 2</error></testcase>
</testsuite></testsuites>"""


def test_a_test_whose_worker_was_late_runs_again_and_no_other(tmp_path, monkeypatch):
    """A machine that is too busy for Spark's 10 s says nothing about a version."""
    report, asked = tmp_path / "report.xml", []

    def run(command, **_):
        place = Path(next(word for word in command if "--junitxml=" in word).split("=", 1)[1])
        asked.append(command[-1])
        again = REPORT.split("<testcase", 1)[0] + (
            '<testcase classname="tests.a.test_b" name="test_late"/></testsuite></testsuites>'
        )
        place.write_text(REPORT if place == report else again)

    monkeypatch.setattr(matrix.subprocess, "run", run)
    counts = matrix.run_tests(["tests/a"], [], report)
    assert asked == ["tests/a", "tests/a/test_b.py::test_late"]
    wrong = "tests.a.test_b::test_wrong"
    assert counts == {"passed": 2, "failed": 1, "skipped": 1, "names": [wrong]}
