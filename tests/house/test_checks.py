"""The script behind run-tests.sh: all parts run, and the last line and the status say how."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modules import load

ROOT = Path(__file__).resolve().parent.parent.parent

SAYS = "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[2]))"


@pytest.fixture
def checks(tmp_path, monkeypatch):
    """Return the script as a module; it keeps its logs in a folder of the test's."""
    module = load("scripts/checks.py")
    monkeypatch.setattr(module, "LOGS", tmp_path)
    return module


def part(checks, name, says, status):
    return checks.Part(name, [sys.executable, "-c", SAYS, says, str(status)])


def test_what_fails_stops_nothing_and_is_counted(checks, capsys):
    lanes = [
        [part(checks, "lint", "E501 1 error in 2 files", 1), part(checks, "types", "fine", 0)],
        [
            part(checks, "fast", "==== 2 failed, 7 passed, 1 skipped, 3 warnings in 1.5s ====", 1),
            part(checks, "spark", "4 passed, 117 deselected in 250.01s (0:04:10)", 0),
            part(checks, "crashed", "Killed", 137),
        ],
    ]
    checks.Checks().run_all(lanes)
    parts = [part for lane in lanes for part in lane]
    assert [part.status for part in parts] == [1, 0, 1, 0, 137]
    assert "E501" in capsys.readouterr().out
    found = checks.summary(parts, 61.25)
    assert found == (
        "==== 2 failed, 11 passed, 1 skipped, 3 warnings, 2 errors in 61.25s (1 min 1 s) ===="
    )


def test_what_never_ran_is_an_error(checks):
    runner = checks.Checks()
    runner.stop()
    late = part(checks, "late", "9 passed in 1.00s", 0)
    runner.run(late)
    assert late.status is None
    assert checks.summary([late], 0) == "==== 1 error in 0.00s (0 min 0 s) ===="


def test_the_long_form_contains_the_quick_one(checks, monkeypatch):
    for name in (
        "HYPOTHESIS_PROFILE",
        "FLOWCONTROL_KILLS",
        "FLOWCONTROL_ROUNDS",
        "FLOWCONTROL_LONG",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("FLOWCONTROL_SEED", raising=False)
    quick, full = (
        {part.name: part for lane in found for part in lane}
        for found in (
            checks.lanes(is_long=long, seed=5, workers=2, chosen=checks.everything())
            for long in (False, True)
        )
    )
    assert quick.keys() == full.keys()
    for name, one in quick.items():
        assert list(full[name].command)[: len(one.command)] == list(one.command)
    assert "HYPOTHESIS_PROFILE" not in quick["fast-tests"].env
    assert full["fast-tests"].env["HYPOTHESIS_PROFILE"] == "long"
    assert full["fast-tests"].env["FLOWCONTROL_ROUNDS"] == "20000"
    assert full["spark-tests"].env["FLOWCONTROL_KILLS"] == "200"
    assert full["spark-tests"].env["FLOWCONTROL_LONG"] == "1"
    assert "FLOWCONTROL_LONG" not in quick["spark-tests"].env
    assert {part.env.get("FLOWCONTROL_SEED") for part in full.values()} == {None, "5"}
    # Between them the parts run every test.
    marks = {name: part.command[-part.command[::-1].index("-m")] for name, part in quick.items()
             if name.endswith("-tests")}  # fmt: skip
    assert marks == {
        "spark-tests": "spark and not starts", "start-tests": "starts", "fast-tests": "not spark"
    }  # fmt: skip
    assert {*load("scripts/changed.py").tracked()} >= {*checks.everything().files}
    assert {*checks.everything().files} < {*quick["fast-tests"].command}


def reached(*files):
    made = load("scripts/changed.py").Reached
    return {file: made(distance, "flowcontrol/x.py") for distance, file in enumerate(files)}


def test_the_nearest_run_until_the_time_is_over(checks, monkeypatch):
    monkeypatch.setattr(checks, "needs_spark", lambda file: "live" in file)
    files = ("tests/test_a.py", "tests/live/test_b.py", "tests/test_c.py")
    found = reached("flowcontrol/x.py", *files)
    chosen = checks.nearest(found, "1234567890", {})
    assert chosen.files == files
    assert chosen.on_spark == ("tests/live/test_b.py",)
    assert "since 12345678" in chosen.why
    assert f"  by flowcontrol/x.py: {' '.join(files)}" in chosen.why
    took_s = {"tests/test_a.py": 299.0, "tests/live/test_b.py": 2.0}
    chosen = checks.nearest(found, "1234567890", took_s)
    assert chosen.files == ("tests/test_a.py",)
    assert "2 more, farther away" in chosen.why
    names = [part.name for lane in checks.lanes(is_long=False, seed=5, workers=2, chosen=chosen)
             for part in lane]  # fmt: skip
    assert "fast-tests" in names
    assert not {"spark-tests", "start-tests", "docs"} & {*names}


def test_what_no_change_is_near_to_is_left_out(checks):
    for begins in checks.BY_CHANGE:
        assert any(one.startswith(begins) for one in checks.everything().files), begins
    [file, *_] = [one for one in checks.everything().files if one.startswith(checks.BY_CHANGE)]
    left = checks.without_far(reached("docs/design.md"), "1234567890")
    assert file not in left.files
    assert left.has_docs
    near = checks.without_far(reached("flowcontrol/kernel/loop.py", file), "1234567890")
    assert {*near.files} - {*left.files} == {file}
    assert not near.has_docs
    assert checks.without_far({}, "").files == checks.everything().files


def test_a_part_without_tests_has_not_failed(checks):
    none = part(checks, "start-tests", "no tests ran", 5)
    checks.Checks().run(none)
    assert none.status == 0
