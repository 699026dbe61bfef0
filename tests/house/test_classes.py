"""The archive of Spark's classes: who writes it, who reads it, and who goes without."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

KEY = "spark.driver.extraJavaOptions"
CLASSES = Path(__file__).resolve().parents[2] / "scripts" / "classes.sh"


@pytest.fixture
def plain(checkout):
    """A checkout whose name has no space, and a pipeline of many short jobs."""
    root = checkout.root.rename(checkout.root.with_name("checkout"))
    (root / "pipeline.py").write_text("# many short jobs\n")
    moved = dataclasses.replace(checkout, root=root)
    moved.start("pipeline.py", "--clock", "virtual")  # the environment is of another place now
    return moved


def options(outcome):
    """Return Java's options for the archive by their names, without what is the same in all."""
    words = outcome.settings.get(KEY, "").split()
    return dict(word.split("=", 1) for word in words if ".jsa" in word)


def archive_of(outcome):
    (path,) = options(outcome).values()
    return path


def test_the_first_run_writes_it_and_the_next_reads_it(plain):
    first = plain.start("pipeline.py")
    (option,) = options(first)
    assert option == "-XX:ArchiveClassesAtExit"
    path = archive_of(first)
    assert path.startswith(f"{plain.venv}/flowcontrol/shared-classes/")
    with open(path, "wb") as file:
        file.write(b"\xa9\xba\x0b\xf0")
    assert options(plain.start("pipeline.py")) == {"-XX:SharedArchiveFile": path}


@pytest.mark.parametrize("content", [b"", b"\0" * 4096], ids=["empty", "zeros"])
def test_one_that_was_not_finished_is_written_again(plain, content):
    path = archive_of(plain.start("pipeline.py"))
    with open(path, "wb") as file:
        file.write(content)
    assert options(plain.start("pipeline.py")) == {"-XX:ArchiveClassesAtExit": path}


def test_one_that_java_cannot_read_is_written_again(plain):
    path = archive_of(plain.start("pipeline.py"))
    with open(path, "wb") as file:
        file.write(b"\xa9\xba\x0b\xf0")
    fails = "#!/bin/sh\ncase $* in *VerifySharedSpaces*) exit 134 ;; esac\nexec java-17 $*\n"
    works = (plain.commands / "java").read_text()
    plain.fake("java-17", works)
    plain.fake("java", fails)
    assert options(plain.start("pipeline.py")) == {"-XX:ArchiveClassesAtExit": path}
    plain.fake("java", works)
    assert options(plain.start("pipeline.py")) == {"-XX:ArchiveClassesAtExit": path}


def test_one_that_was_cut_short_is_tried_again(plain):
    path = archive_of(plain.start("pipeline.py"))
    with open(path, "wb") as file:
        file.write(b"\xa9\xba\x0b\xf0")
    assert options(plain.start("pipeline.py")) == {"-XX:SharedArchiveFile": path}
    plain.fake("java", "#!/bin/sh\n[ $# = 1 ] || exit 134\necho 'version \"17\"' >&2\n")
    assert options(plain.start("pipeline.py")) == {"-XX:SharedArchiveFile": path}
    with open(path, "wb") as file:
        file.write(b"\xa9\xba")
    assert options(plain.start("pipeline.py")) == {"-XX:ArchiveClassesAtExit": path}


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_what_java_itself_writes_is_whole_until_it_is_cut(tmp_path):
    archive = tmp_path / "java.jsa"
    write = ["java", f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off", "-version"]
    subprocess.run(write, check=True, capture_output=True)
    if not archive.exists():
        pytest.skip("this Java writes no archive")

    def is_whole():
        command = f'source "{CLASSES}"; is_whole "{archive}"'
        return subprocess.run(["bash", "-c", command], check=False).returncode == 0

    assert [is_whole(), is_whole()] == [True, True]
    archive.chmod(0o600)
    with open(archive, "r+b") as file:
        file.truncate(archive.stat().st_size // 2)
    assert not is_whole()


def test_another_java_has_another_and_the_old_one_goes(plain):
    path = archive_of(plain.start("pipeline.py"))
    with open(path, "wb") as file:
        file.write(b"\xa9")
    (plain.commands / "java").rename(plain.commands / "java-17")
    (plain.commands / "java").symlink_to("java-17")
    again = plain.start("pipeline.py")
    assert options(again) == {"-XX:ArchiveClassesAtExit": archive_of(again)}
    assert archive_of(again) != path
    assert subprocess.run(["test", "-e", path], check=False).returncode == 1


def test_settings_are_off_the_class_path_and_read_all_the_same(plain):
    outcome = plain.start("pipeline.py")
    ours = f"{plain.root}/flowcontrol/spark/conf"
    env = outcome.pipeline["env"]
    assert env["SPARK_CONF_DIR"] == ours
    assert f"-Dlog4j2.configurationFile={ours}/log4j2.properties" in outcome.settings[KEY]
    shell = f". '{ours}/spark-env.sh' && printf '%s' \"$SPARK_CONF_DIR\""
    got = subprocess.run(
        ["bash", "-c", shell], env={**env, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert got.stdout == f"{plain.venv}/flowcontrol/shared-classes/conf"


@pytest.mark.parametrize(
    "given",
    [
        ["--driver-java-options", "-Dmine=1"],
        ["--conf", f"{KEY}=-Dmine=1"],
        ["--properties-file", "mine.conf"],
        ["--master", "spark://h:7077"],
    ],
    ids=lambda given: given[0],
)
def test_options_of_the_users_own_stay_alone(plain, given):
    (plain.root / "mine.conf").write_text(f"{KEY} -Dmine=1\n")
    outcome = plain.start(*given, "pipeline.py")
    assert options(outcome) == {}
    assert "FLOWCONTROL_EMPTY_CONF" not in outcome.pipeline["env"]


def test_settings_of_the_machine_stay_on_the_class_path(plain):
    assert options(plain.start("pipeline.py", SPARK_CONF_DIR="/etc/spark")) == {}


def test_other_pipelines_and_names_with_spaces_go_without(plain, tmp_path):
    (plain.root / "other.py").touch()
    assert options(plain.start("other.py")) == {}
    spaced = plain.start("pipeline.py", FLOWCONTROL_VENV=f"{tmp_path}/an environment")
    assert spaced.status == 0
    assert options(spaced) == {}
