"""spark-submit.sh: what it hands to Spark and to the pipeline. No JVM, no network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest


def option(outcome, name):
    """Return the value of an option that is given once, or None."""
    values = [value for key, value in outcome.submitted if key == name]
    assert len(values) < 2
    return values[0] if values else None


ARGUMENTS = [
    [],
    ["conf/experiment.yaml"],
    ["a b", "", "it's", '"quoted"', "$HOME", "*", "back\\slash", "new\nline", "ü"],
    ["--master", "local[1]", "--conf", "x=y", "--jars", "z.jar"],
    ["--clock", "live", "--out", "virtual"],
    ["--", "--help"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=repr)
def test_arguments_reach_the_pipeline_untouched(checkout, arguments):
    outcome = checkout.start("pipeline.py", *arguments)
    assert outcome.status == 0
    assert outcome.pipeline["argv"] == ["pipeline.py", *arguments]
    assert (outcome.out, outcome.err) == ("", "")


@pytest.mark.parametrize("status", [0, 1, 255])
@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_status_of_the_pipeline_is_the_status(checkout, status, clock):
    outcome = checkout.start("pipeline.py", "--clock", clock, FAKE_STATUS=str(status))
    assert outcome.status == status


OPTIONS = [
    ("--name", "a.py"),
    ("--conf", "spark.x=a b 'c' \"d\" $e"),
    ("-c", "spark.y=1=2"),
    ("--files", "data.py"),
    ("--driver-memory", "2g"),
    ("--driver-java-options", "-Xss4m -Dkey='two words'"),
    ("--driver-class-path", "/a b/c"),
    ("--executor-cores", "2"),
    ("--num-executors", "3"),
    ("--packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
    ("--properties-file", "no-such-file.py"),
    ("--queue", "--verbose"),
]


@pytest.mark.parametrize("joined", [False, True], ids=["two words", "one word"])
def test_options_and_their_values_reach_spark(checkout, joined):
    words = []
    for name, value in OPTIONS:
        words += [f"{name}={value}"] if joined and name != "-c" else [name, value]
    outcome = checkout.start(*words, "--verbose", "pipeline.py", "argument")
    assert outcome.pipeline["argv"] == ["pipeline.py", "argument"]
    given = [("--conf" if name == "-c" else name, value) for name, value in OPTIONS]
    assert [one for one in given if one not in outcome.submitted] == []
    assert ("--verbose", None) in outcome.submitted


@pytest.mark.parametrize(
    ("words", "master"),
    [
        ([], "local[*]"),
        (["--master", "local[1]"], "local[1]"),
        (["--master=spark://h:7077"], "spark://h:7077"),
    ],
)
def test_master_is_local_unless_given(checkout, words, master):
    assert option(checkout.start(*words, "pipeline.py"), "--master") == master


def test_master_by_a_setting_or_the_environment(checkout):
    by_setting = checkout.start("--conf", "spark.master=local[3]", "pipeline.py")
    assert option(by_setting, "--master") is None
    assert by_setting.settings["spark.master"] == "local[3]"
    by_variable = checkout.start("pipeline.py", SPARK_MASTER="local[5]")
    assert option(by_variable, "--master") == "local[5]"


def test_settings_that_delta_and_the_stages_need_are_given(checkout):
    given = checkout.start("pipeline.py").settings
    assert given["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert given["spark.scheduler.mode"] == "FAIR"
    assert given["spark.ui.enabled"] == "false"
    assert given["spark.app.name"] == "pipeline.py"
    assert given["spark.driver.defaultJavaOptions"] == "-Xss16m"


def test_many_short_jobs_are_compiled_once_on_a_local_master(checkout):
    (checkout.root / "pipeline.py").write_text('"""One."""\n# many short jobs\n')
    key = "spark.driver.defaultJavaOptions"
    options = checkout.start("pipeline.py").settings[key].split()
    assert options[:2] == ["-Xss16m", "-XX:TieredStopAtLevel=1"]
    mine = checkout.start("--conf", f"{key}=-Xss32m", "pipeline.py")
    assert mine.settings[key] == "-Xss32m"
    cluster = checkout.start("--master", "spark://h:7077", "pipeline.py")
    assert cluster.settings[key] == "-Xss16m"


def test_logs_are_quiet_unless_the_machine_has_settings_of_its_own(checkout):
    ours = checkout.start("pipeline.py").pipeline["env"]
    assert ours["SPARK_CONF_DIR"] == f"{checkout.root}/flowcontrol/spark/conf"
    assert ours["SPARK_ENV_LOADED"] == "1"  # for the space in the checkout's name
    theirs = checkout.start("pipeline.py", SPARK_CONF_DIR="/etc/spark").pipeline["env"]
    assert theirs["SPARK_CONF_DIR"] == "/etc/spark"
    assert "SPARK_ENV_LOADED" not in theirs


def test_setting_on_the_command_line_wins(checkout):
    outcome = checkout.start(
        "--conf", "spark.scheduler.mode=FIFO", "--conf=spark.ui.enabled=true", "pipeline.py"
    )
    pairs = [value for name, value in outcome.submitted if name == "--conf"]
    assert "spark.scheduler.mode=FIFO" in pairs
    assert "spark.scheduler.mode=FAIR" not in pairs
    assert outcome.settings["spark.ui.enabled"] == "true"


@pytest.mark.parametrize("separator", [" ", "=", " = ", ":", "\t"])
def test_setting_in_a_properties_file_wins(checkout, separator):
    mine = checkout.root / "mine.conf"
    mine.write_text(
        f"# a comment\nspark.scheduler.mode{separator}FIFO\nspark.master{separator}local[7]\n"
        f"spark.jars{separator}mine.jar\nspark.schedulerXmode{separator}other\n"
    )
    outcome = checkout.start("--properties-file", "mine.conf", "pipeline.py")
    assert "spark.scheduler.mode" not in outcome.settings
    assert option(outcome, "--master") is None
    assert option(outcome, "--jars").endswith("b.jar,mine.jar")
    assert "spark.sql.extensions" in outcome.settings


def test_site_defaults_win_unless_a_properties_file_replaces_them(checkout):
    site = checkout.root / "site"
    site.mkdir()
    (site / "spark-defaults.conf").write_text("spark.scheduler.mode FIFO\n")
    (checkout.root / "mine.conf").write_text("spark.other 1\n")
    env = {"SPARK_CONF_DIR": str(site)}
    assert "spark.scheduler.mode" not in checkout.start("pipeline.py", **env).settings
    mine = ["--properties-file", "mine.conf"]
    replaced = checkout.start(*mine, "pipeline.py", **env)
    assert replaced.settings["spark.scheduler.mode"] == "FAIR"
    both = checkout.start(*mine, "--load-spark-defaults", "pipeline.py", **env)
    assert "spark.scheduler.mode" not in both.settings


def test_jars_are_deltas_and_the_users(checkout):
    jars = f"{checkout.venv}/flowcontrol/jars"
    assert option(checkout.start("pipeline.py"), "--jars") == f"{jars}/a.jar,{jars}/b.jar"
    mine = checkout.start("--jars", "mine.jar,other.jar", "pipeline.py")
    assert option(mine, "--jars") == f"{jars}/a.jar,{jars}/b.jar,mine.jar,other.jar"
    by_setting = checkout.start("--conf", "spark.jars=mine.jar", "pipeline.py")
    assert option(by_setting, "--jars") == f"{jars}/a.jar,{jars}/b.jar,mine.jar"
    assert "spark.jars" not in by_setting.settings


def test_a_delta_of_the_users_own_replaces_ours(checkout):
    outcome = checkout.start("--packages", "io.delta:delta-spark_4.2_2.13:9.9", "pipeline.py")
    assert option(outcome, "--jars") is None


def test_python_files_can_be_imported_from_the_first_line_on(checkout):
    outcome = checkout.start("--py-files", "lib.zip,/a b/mod.py", "pipeline.py", PYTHONPATH="/x")
    assert option(outcome, "--py-files") == "lib.zip,/a b/mod.py"
    assert outcome.pipeline["env"]["PYTHONPATH"] == "/x:lib.zip:/a b"


def test_package_travels_to_another_machine_only(checkout):
    zipped = checkout.venv / "flowcontrol" / "flowcontrol.zip"
    assert option(checkout.start("pipeline.py"), "--py-files") is None
    away = checkout.start(
        "--master", "spark://h:1", "--py-files", "a.zip", "pipeline.py", PYSPARK_PYTHON="python9"
    )
    assert option(away, "--py-files") == f"{zipped},a.zip"
    assert away.pipeline["env"]["PYSPARK_PYTHON"] == "python9"
    listing = [sys.executable, "-m", "zipfile", "-l", str(zipped)]
    assert "flowcontrol/__init__.py" in subprocess.check_output(listing, text=True)
    assert "spark.sql.shuffle.partitions" not in away.settings


def test_local_workers_run_the_environments_python(checkout):
    outcome = checkout.start("pipeline.py", PYSPARK_PYTHON="/some/other/python")
    assert outcome.pipeline["env"]["PYSPARK_PYTHON"] == str(checkout.venv / "bin" / "python")


def test_another_spark_of_the_machine_is_left_alone(checkout):
    outcome = checkout.start("pipeline.py", SPARK_HOME="/opt/spark", PYTHONPATH="/opt/spark/p:/y")
    assert outcome.pipeline["env"]["SPARK_HOME"].endswith("site-packages/pyspark")
    assert outcome.pipeline["env"]["PYTHONPATH"] == "/y"


def test_cluster_mode_goes_through_spark_submit(checkout):
    outcome = checkout.start(
        "--master", "yarn", "--deploy-mode", "cluster", "pipeline.py", "a b", FAKE_STATUS="3"
    )
    assert outcome.status == 3
    (call,) = outcome.named("spark-submit")
    assert call["argv"][-2:] == ["pipeline.py", "a b"]
    assert call["argv"][2:4] == ["--deploy-mode", "cluster"]


@pytest.mark.parametrize("clock", [["--clock", "virtual"], ["--clock=virtual"]])
def test_virtual_clock_needs_no_java_and_no_jars(checkout, clock):
    (checkout.commands / "java").unlink()
    (checkout.venv / "flowcontrol" / "ready-jars").unlink()
    outcome = checkout.start("--master", "local[2]", "pipeline.py", "x.yaml", *clock)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.pipeline["argv"] == ["pipeline.py", "x.yaml", *clock]
    assert "PYSPARK_SUBMIT_ARGS" not in outcome.pipeline["env"]


def test_a_pipeline_that_says_so_needs_no_java_and_no_jars(checkout):
    (checkout.commands / "java").unlink()
    (checkout.venv / "flowcontrol" / "ready-jars").unlink()
    (checkout.root / "pipeline.py").write_text('"""Count."""\n# needs no Java\n')
    outcome = checkout.start("pipeline.py", "x.yaml")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.pipeline["argv"] == ["pipeline.py", "x.yaml"]
    assert "PYSPARK_SUBMIT_ARGS" not in outcome.pipeline["env"]


@pytest.mark.parametrize(
    "line", ["needs no Java", "# needs no Javascript", "x = 1  # needs no Java"]
)
def test_other_lines_do_not_say_so(checkout, line):
    (checkout.root / "pipeline.py").write_text(f"{line}\n")
    assert "PYSPARK_SUBMIT_ARGS" in checkout.start("pipeline.py").pipeline["env"]


@pytest.mark.parametrize("words", [["virtual", "--clock"], ["--clock", "live", "virtual"]])
def test_other_words_are_not_the_virtual_clock(checkout, words):
    assert "PYSPARK_SUBMIT_ARGS" in checkout.start("pipeline.py", *words).pipeline["env"]


def test_without_java_one_line_says_what_to_install(checkout):
    (checkout.commands / "java").unlink()
    outcome = checkout.start("pipeline.py", JAVA_HOME="/no/such/folder")
    assert outcome.status == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "Java 17 or newer" in outcome.err
    assert "none was found" in outcome.err
    assert "openjdk-17" in outcome.err
    assert outcome.calls == []


@pytest.mark.parametrize(
    ("version", "works"),
    [("1.8.0_402", False), ("11.0.22", False), ("16", False), ("17", True), ("25.0.1", True)],
)
def test_java_must_be_17_or_newer(checkout, version, works):
    checkout.fake("java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    outcome = checkout.start("pipeline.py")
    assert (outcome.status == 0) is works
    assert works or f"only Java {version.split('.')[0]} was found" in outcome.err


def test_java_version_is_read_without_starting_it(checkout):
    home = checkout.root / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 9\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')
    outcome = checkout.start("pipeline.py", JAVA_HOME=str(home))
    assert outcome.status == 0
    assert outcome.pipeline["env"]["JAVA_HOME"] == str(home)


def test_java_home_that_is_too_old_gives_way_to_the_path(checkout):
    home = checkout.root / "jdk8"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="1.8.0"\n')
    outcome = checkout.start("pipeline.py", JAVA_HOME=str(home))
    assert outcome.status == 0
    assert "JAVA_HOME" not in outcome.pipeline["env"]


REFUSED = [
    ([], "usage:"),
    (["--master", "local[2]"], "usage:"),
    (["--master"], "--master needs a value"),
    (["--no-such-option", "pipeline.py"], "--no-such-option is not an option"),
    (["pipeline.jar"], "must end in .py"),
    (["missing.py"], "no file missing.py"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_wrong_command_lines_are_refused(checkout, words, message):
    outcome = checkout.start(*words)
    assert outcome.status == 1
    assert message in outcome.err
    assert outcome.calls == []


def test_help_is_no_error(checkout):
    outcome = checkout.start("--help")
    assert outcome.status == 0
    assert "spark-submit options" in outcome.out


def test_starts_from_any_folder(checkout, tmp_path):
    (tmp_path / "mine.py").touch()
    checkout.log.write_text("")
    script = checkout.root / "spark-submit.sh"
    status = subprocess.run([script, "mine.py"], cwd=tmp_path, env=checkout.environment())
    assert status.returncode == 0
    assert checkout.calls()[0]["argv"] == ["mine.py"]


def test_signal_reaches_the_pipeline_itself(checkout):
    """The script becomes the pipeline: its process id is the pipeline's, so a signal hits it."""
    waiting = '#!/bin/sh\n[ "$1" = -V ] && echo Python 3.11.7 && exit\nexec sleep 3600\n'
    (checkout.commands / "sleep").symlink_to("/bin/sleep")
    (checkout.venv / "bin" / "python").write_text(waiting)
    process = checkout.popen("pipeline.py", "--clock=virtual")
    while b"sleep" not in _command(process.pid):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGINT


def _command(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
