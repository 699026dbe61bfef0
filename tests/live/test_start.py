"""Spark in a plain Python process: Java, the settings of the start script, Delta's JARs. No JVM."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from flowcontrol.errors import RunError
from flowcontrol.spark import session as start

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole PATH; no JAVA_HOME."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def fake(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (folder / "java").chmod(0o755)


@pytest.mark.parametrize(
    ("version", "works"),
    [("1.8.0_402", False), ("11.0.22", False), ("16", False), ("17", True), ("25.0.1", True)],
)
def test_java_must_be_17_or_newer(java: Path, version: str, works: bool) -> None:
    fake(java, version)
    if works:
        start.require_java()
        return
    with pytest.raises(RunError, match=f"only Java {version.split('.')[0]} was found"):
        start.require_java()


def test_without_java_one_line_says_what_to_install(java: Path) -> None:
    with pytest.raises(RunError) as refused:
        start.require_java()
    text = str(refused.value)
    assert "none was found" in text
    assert "openjdk-17" in text
    assert "virtual clock, which needs no Java" in text
    assert "\n" not in text


def test_java_home_that_is_too_old_gives_way_to_the_path(
    java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(java, "17")
    fake(java / "old" / "bin", "1.8.0")
    monkeypatch.setenv("JAVA_HOME", str(java / "old"))
    start.require_java()
    assert "JAVA_HOME" not in os.environ


def test_java_version_is_read_without_starting_it(
    java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(java / "jdk" / "bin", "1.8")
    (java / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')
    assert start.java_version(java / "jdk" / "bin" / "java") == 21
    monkeypatch.setenv("JAVA_HOME", str(java / "jdk"))
    start.require_java()
    assert os.environ["JAVA_HOME"] == str(java / "jdk")


def test_the_settings_are_those_of_the_start_script(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(start, "require_java", lambda: None)
    monkeypatch.setattr(start, "delta", dict)
    script = (ROOT / "spark-submit.sh").read_text()
    read = re.findall(r"^\s*default_settings \"\$FC_ROOT/(\S+)\"$", script, re.MULTILINE)
    stated = dict(re.findall(r"^\s*set_default (spark\.\S+) (\S+)$", script, re.MULTILINE))
    short = "flowcontrol/spark/short_jobs.conf"
    assert short in read
    for short_jobs in (False, True):
        files = [name for name in read if short_jobs or name != short]
        text = "".join((ROOT / name).read_text() for name in files)
        own = stated | dict(re.findall(r"^(spark\.\S+)\s+(\S.*)$", text, re.MULTILINE))
        found = start.prepare(short_jobs=short_jobs)
        assert found == {"spark.master": "local[*]", **own}
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_CONF_DIR"] == str(ROOT / "flowcontrol" / "spark" / "conf")


@pytest.fixture
def no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without JARs, and a Spark whose resolver is a script that notes its words."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(start.JARS, str(tmp_path / "jars"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def resolver(home: Path, text: str) -> None:
    (home / "bin").mkdir()
    (home / "bin" / "spark-submit").write_text(f'#!/bin/sh\necho "$@" >> {home}/words\n{text}\n')
    (home / "bin" / "spark-submit").chmod(0o755)


def test_jars_of_the_start_script_are_taken(no_jars: Path) -> None:
    (no_jars / "jars").mkdir()
    (no_jars / "jars" / "a.jar").touch()
    assert start.delta() == {"spark.jars": str(no_jars / "jars" / "a.jar")}


def test_jars_are_fetched_once(no_jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ivy = "for word; do case $word in spark.jars.ivy=*) ivy=${word#*=};; esac; done"
    resolver(no_jars, f"{ivy}; mkdir $ivy/jars; touch $ivy/jars/delta.jar")
    env = (ROOT / "scripts" / "env.sh").read_text()
    package = re.search(r"^DELTA_PACKAGE=(\S+)$", env, re.MULTILINE)
    assert package is not None
    first = start.delta()
    assert first["spark.jars"].endswith("/delta.jar")
    assert Path(first["spark.jars"]).is_relative_to(no_jars / ".cache" / "flowcontrol")
    said = capsys.readouterr().err
    assert said == "fetching Delta's JARs, usually 10 s to a minute, once\n"
    assert start.delta() == first
    assert capsys.readouterr().err == ""
    words = (no_jars / "words").read_text()
    assert words.count("\n") == 1
    assert f"--packages {package[1]} --exclude-packages com.fasterxml.*:*," in words


def test_jars_that_cannot_be_fetched_are_one_line(no_jars: Path) -> None:
    resolver(no_jars, "echo some lines; echo ':: unresolved dependency: io.delta'; exit 1")
    with pytest.raises(RunError) as failed:
        start.delta()
    assert "could not be fetched: :: unresolved dependency: io.delta; put them" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert [path.name for path in (no_jars / ".cache" / "flowcontrol").iterdir()] == []
