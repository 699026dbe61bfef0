"""The wheel has every file of the package; scripts/build.sh installs and runs it as well."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modules import load

script = load("scripts/wheel_files.py")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder that setuptools would zip: no network, and nothing left in the checkout."""
    home = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            sys.executable, "-c", "import setuptools; setuptools.setup()", "-q",
            "egg_info", "--egg-base", str(home),
            "build", "--build-base", str(home / "build"), "--build-lib", str(home / "lib"),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home / "lib"


def test_everything_of_the_package_goes_into_the_wheel(built):
    """Pages, tables, styles, scripts and the modules that Spark looks for, not Python alone."""
    found = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    wanted = script.wanted_files()
    assert sorted(wanted - found) == []
    assert sorted(found - wanted) == []
    for kind in (".yaml", ".html", ".css", ".js", ".svg", "py.typed"):
        assert any(name.endswith(kind) for name in wanted), kind
    assert {"pyspark_flowcontrol.py", "pyspark_flowcontrol_figures.py"} <= wanted


def test_a_wheel_that_lacks_a_file_is_told(tmp_path, capsys):
    wheel = tmp_path / "flowcontrol-1-py3-none-any.whl"
    wanted = script.wanted_files()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in wanted - {"flowcontrol/py.typed"}:
            archive.writestr(name, "")
        archive.writestr("flowcontrol-1.dist-info/METADATA", "")
    assert script.main(wheel) == 1
    assert "lacks flowcontrol/py.typed" in capsys.readouterr().err
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("flowcontrol/py.typed", "")
    assert script.main(wheel) == 0
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/left.py", "")
    assert script.main(wheel) == 1
    assert "has tests/left.py" in capsys.readouterr().err
