"""The first start: what is installed when, and what an interrupted or doubled one leaves."""

from __future__ import annotations

import configparser
import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def tools(outcome):
    return [call["tool"] for call in outcome.calls]


def test_first_start_sets_up_and_the_second_does_not(bare_checkout):
    first = bare_checkout.start("pipeline.py")
    assert first.status == 0
    assert tools(first) == ["venv", "pip", "resolve", "pipeline"]
    second = bare_checkout.start("pipeline.py")
    assert tools(second) == ["pipeline"]
    assert second.err == ""


def test_what_takes_long_is_said_and_can_be_silenced(bare_checkout):
    said = bare_checkout.start("pipeline.py").err.splitlines()
    assert said == [
        f"spark-submit.sh: installing Python packages into {bare_checkout.venv}, "
        "usually a minute or two, once",
        "spark-submit.sh: fetching Delta's JARs, usually 10 s to a minute, once",
    ]
    (bare_checkout.venv / "flowcontrol" / "ready-run").unlink()
    quiet = bare_checkout.start("pipeline.py", FLOWCONTROL_QUIET="1")
    assert (tools(quiet), quiet.err) == (["pip", "pipeline"], "")


def test_packages_are_pinned_by_the_constraints(bare_checkout):
    (call,) = bare_checkout.start("pipeline.py").named("pip")
    words = call["argv"]
    assert words[words.index("--constraint") + 1] == "requirements/constraints.txt"
    assert words[-2:] == ["--editable", ".[spark,report,flights,virtual,tune]"]


def test_the_virtual_clock_installs_no_spark_until_a_live_one_comes(bare_checkout):
    first = bare_checkout.start("pipeline.py", "--clock=virtual")
    assert tools(first) == ["venv", "pip", "pipeline"]
    (call,) = first.named("pip")
    assert call["argv"][-1] == ".[virtual,tune]"
    assert tools(bare_checkout.start("pipeline.py", "--clock=virtual")) == ["pipeline"]
    live = bare_checkout.start("pipeline.py")
    assert tools(live) == ["pip", "resolve", "pipeline"]
    (call,) = live.named("pip")
    assert call["argv"][-1] == ".[spark,report,flights,virtual,tune]"
    assert tools(bare_checkout.start("pipeline.py", "--clock=virtual")) == ["pipeline"]


@pytest.mark.parametrize("changed", ["setup.cfg", "pyproject.toml", "requirements/constraints.txt"])
def test_changed_requirements_are_installed(bare_checkout, changed):
    bare_checkout.start("pipeline.py")
    with open(bare_checkout.root / changed, "a") as file:
        file.write("# changed\n")
    assert tools(bare_checkout.start("pipeline.py")) == ["pip", "pipeline"]


def test_another_python_in_the_environment_is_set_up_again(bare_checkout):
    bare_checkout.start("pipeline.py")
    outcome = bare_checkout.start("pipeline.py", FAKE_VERSION="3.12.1")
    assert tools(outcome) == ["pip", "pipeline"]


def test_failed_install_is_one_line_and_is_tried_again(bare_checkout):
    failed = bare_checkout.start("pipeline.py", FAKE_PIP_STATUS="1")
    assert failed.status == 1
    assert "pip failed: ERROR: No matching distribution" in failed.err.splitlines()[-1]
    assert tools(bare_checkout.start("pipeline.py")) == ["pip", "resolve", "pipeline"]


def test_failed_fetch_of_jars_is_one_line_and_is_tried_again(bare_checkout):
    failed = bare_checkout.start("pipeline.py", FAKE_IVY_STATUS="1")
    assert failed.status == 1
    last = failed.err.splitlines()[-1]
    assert "Delta's JARs could not be fetched: :: unresolved dependency" in last
    assert tools(bare_checkout.start("pipeline.py")) == ["resolve", "pipeline"]


def test_a_download_that_fails_is_tried_again_without_mavens_repository(bare_checkout):
    text = "Exception: [download failed: io.delta#delta;4.2!delta.jar]"
    failed = bare_checkout.start("pipeline.py", FAKE_IVY_STATUS="1", FAKE_IVY_TEXT=text)
    assert failed.err.splitlines()[-1].startswith(
        f"spark-submit.sh: Delta's JARs could not be fetched: {text}"
    )
    assert tools(failed)[-2:] == ["resolve", "resolve"]
    assert any(word.startswith("-Duser.home=") for word in failed.calls[-1]["argv"])


def test_killed_set_up_is_done_again(bare_checkout):
    process = bare_checkout.popen("pipeline.py", FAKE_PIP_UNTIL="never")
    while not any(call["tool"] == "pip" for call in bare_checkout.calls()):
        assert process.poll() is None
    process.kill()
    process.communicate()
    (pip,) = [call for call in bare_checkout.calls() if call["tool"] == "pip"]
    # The lock is the dead script's and its pip's; the test ends the pip as a closed terminal would.
    _end_children(pip)
    assert tools(bare_checkout.start("pipeline.py")) == ["pip", "resolve", "pipeline"]


def test_two_first_starts_at_once_install_once(bare_checkout, tmp_path):
    may_end = tmp_path / "may end"
    first = bare_checkout.popen("pipeline.py", FAKE_PIP_UNTIL=str(may_end))
    while not any(call["tool"] == "pip" for call in bare_checkout.calls()):
        assert first.poll() is None
    second = bare_checkout.popen("pipeline.py")
    assert "waiting for another start" in second.stderr.readline()
    may_end.touch()
    for process in (first, second):
        process.communicate()
        assert process.returncode == 0
    called = [call["tool"] for call in bare_checkout.calls()]
    assert sorted(called) == ["pip", "pipeline", "pipeline", "resolve", "venv"]


def test_folder_that_is_no_environment_is_left_alone(bare_checkout):
    precious = bare_checkout.root / "data" / "precious"
    precious.parent.mkdir()
    precious.touch()
    outcome = bare_checkout.start("pipeline.py", FLOWCONTROL_VENV=str(precious.parent))
    assert outcome.status == 1
    assert "it is not a virtual environment" in outcome.err
    assert precious.exists()
    assert tools(outcome) == []


def test_environment_can_stand_elsewhere(bare_checkout, tmp_path):
    elsewhere = tmp_path / "else where"
    outcome = bare_checkout.start("pipeline.py", FLOWCONTROL_VENV=str(elsewhere))
    assert outcome.status == 0
    assert (elsewhere / "flowcontrol" / "ready-run").exists()
    assert not bare_checkout.venv.exists()


def copy_of(checkout, folder):
    """Return a second checkout on the same machine, with all that the first one has."""
    shutil.copytree(checkout.root, folder, symlinks=True)
    return dataclasses.replace(checkout, root=folder)


def test_two_checkouts_do_not_install_over_each_other(bare_checkout, tmp_path):
    """Each would see the other's stamp, and install itself at every start."""
    shared = {"FLOWCONTROL_VENV": str(tmp_path / "shared")}
    other = copy_of(bare_checkout, tmp_path / "other")
    assert bare_checkout.start("pipeline.py", **shared).status == 0
    outcome = other.start("pipeline.py", **shared)
    assert (outcome.status, tools(outcome)) == (1, [])
    (line,) = outcome.err.splitlines()
    assert f"{tmp_path / 'shared'} is the environment of the checkout {bare_checkout.root}" in line
    assert "set FLOWCONTROL_VENV to another folder" in line
    assert tools(bare_checkout.start("pipeline.py", **shared)) == ["pipeline"]


def test_a_checkout_that_was_moved_or_copied_installs_itself(bare_checkout, tmp_path):
    shared = {"FLOWCONTROL_VENV": str(tmp_path / "shared")}
    bare_checkout.start("pipeline.py", **shared)
    bare_checkout.start("pipeline.py")
    copied = copy_of(bare_checkout, tmp_path / "copied")
    assert tools(copied.start("pipeline.py")) == ["pip", "pipeline"]
    moved = dataclasses.replace(bare_checkout, root=tmp_path / "moved")
    bare_checkout.root.rename(moved.root)
    assert tools(moved.start("pipeline.py", **shared)) == ["pip", "pipeline"]


def test_python_that_cannot_run_is_passed_over(bare_checkout):
    bare_checkout.fake(
        "python3.11", "#!/bin/sh\necho 'pyenv: version not installed' >&2\nexit 127\n"
    )
    outcome = bare_checkout.start("pipeline.py", FLOWCONTROL_PYTHON="")
    assert outcome.status == 0
    bare_checkout.fake("python3", "#!/bin/sh\nexit 1\n")
    (bare_checkout.venv / "bin" / "python").unlink()
    outcome = bare_checkout.start("pipeline.py", FLOWCONTROL_PYTHON="")
    assert outcome.status == 1
    assert outcome.err.count("\n") == 1
    assert "Python 3.11 or newer" in outcome.err


def test_versions_of_delta_and_spark_agree():
    """The JAR's name holds both versions that the constraints install; setup.cfg allows them."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    allowed = dict(
        line.split(" ", 1) for line in setup["options.extras_require"]["spark"].split("\n") if line
    )
    constraints = (ROOT / "requirements" / "constraints.txt").read_text()
    pins = dict(re.findall(r"^(pyspark|delta_spark)==(\S+)$", constraints, re.MULTILINE))
    assert allowed["delta-spark"] == f"=={pins['delta_spark']}"
    assert allowed["pyspark"].endswith(f"<={pins['pyspark']}")
    package = re.search(r"^DELTA_PACKAGE=(\S+)$", (ROOT / "scripts/env.sh").read_text(), re.M)[1]
    spark_minor = ".".join(pins["pyspark"].split(".")[:2])
    assert package == f"io.delta:delta-spark_{spark_minor}_2.13:{pins['delta_spark']}"


def _end_children(call):
    import os
    import signal

    os.kill(call["pid"], signal.SIGKILL)


def test_modules_are_compiled_once_wherever_that_may_be_kept(bare_checkout):
    kept = bare_checkout.start("pipeline.py").pipeline["env"]
    assert "PYTHONPYCACHEPREFIX" not in kept
    outcome = bare_checkout.start("pipeline.py", PYTHONDONTWRITEBYTECODE="1")
    apart = outcome.pipeline["env"]
    assert "PYTHONDONTWRITEBYTECODE" not in apart
    assert apart["PYTHONPYCACHEPREFIX"] == f"{bare_checkout.venv}/flowcontrol/pycache"


def test_nothing_is_in_the_place_of_the_environment_before_it_is_made(bare_checkout):
    """Python would make the folder for what it compiles."""
    outcome = bare_checkout.start("pipeline.py", PYTHONDONTWRITEBYTECODE="1")
    before = outcome.calls[: tools(outcome).index("pip")]
    assert [call["tool"] for call in before] == ["venv"]
    assert all("PYTHONPYCACHEPREFIX" not in call["env"] for call in before)


def test_pyspark_is_not_imported_from_the_zip_that_spark_names(bare_checkout):
    """From a zip each of Spark's Pythons compiles it again."""
    bare_checkout.start("pipeline.py")
    site = bare_checkout.venv / "lib/python3.11/site-packages"
    (line,) = (site / "flowcontrol-pyspark.pth").read_text().splitlines()
    zips = [f"{site}/pyspark/python/lib/pyspark.zip", f"{site}/pyspark/jars/spark-core.jar"]
    others = [str(site), "/spark/site-packages/pyspark/python/lib/pyspark.zip", "/mine/lib.zip"]
    program = (
        "import sys\n"
        f"sys.prefix, sys.path = {str(bare_checkout.venv)!r}, {[*zips, *others]!r}\n"
        f"def run():\n    exec({line!r})\n"  # as site does: names of its own
        "run()\nprint(*sys.path, sep='\\n')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.splitlines() == others, run.stderr
