"""Spark in a plain Python process, as ``spark-submit.sh`` starts it: Java, settings, Delta's JARs.

What the script does and this does not: make an environment, and send the package to the executors
of a cluster. So the session is a local one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata, resources
from pathlib import Path
from typing import Final

from flowcontrol.errors import RunError
from flowcontrol.notices import announce_step
from flowcontrol.spark.versions import checkpoint_file_manager

LEAST_JAVA: Final = 17
"""Oldest Java that Spark 4 runs on."""

JARS: Final = "FLOWCONTROL_JARS"
"""Environment variable: folder of Delta's JARs; by default where ``spark-submit.sh`` puts them, or
else ``~/.cache/flowcontrol``."""

_WHY: Final = re.compile("unresolved|Error|Exception")

CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""Why it is set: ``local.conf``, which names the class of the newest Spark."""

STACK: Final = "-Xss16m"
"""Stopping a Python foreachBatch query in mid-batch overflows a thread's usual stack."""


def prepare(*, short_jobs: bool = False) -> dict[str, str]:
    """Make this process ready to start a local Spark; return the settings of the session.

    Environment variables that Spark reads once, at its start, are set here: the Python of its
    workers, the address that it listens on, its logs.

    ``short_jobs``: take those of ``short_jobs.conf`` as well.

    Raises RunError if there is no Java of :data:`LEAST_JAVA` or newer.
    """
    require_java()
    own_spark()
    # Spark's workers else run whatever "python3" is on the PATH, which may lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = resources.files(__package__).joinpath("conf")
    if isinstance(conf, Path):  # not in a zip archive
        os.environ.setdefault("SPARK_CONF_DIR", str(conf))
        if " " in os.environ["SPARK_CONF_DIR"]:  # spark-env.sh is sourced without quotes
            os.environ.setdefault("SPARK_ENV_LOADED", "1")
    found = {"spark.master": "local[*]", "spark.driver.defaultJavaOptions": STACK}
    if short_jobs:
        found |= settings("short_jobs.conf")
    found |= {**settings("defaults.conf"), **settings("local.conf")}
    return found | {CHECKPOINT_FILES: checkpoint_file_manager()} | delta()


def settings(name: str) -> dict[str, str]:
    """Return the settings of a properties file of this package."""
    lines = resources.files(__package__).joinpath(name).read_text("utf-8").splitlines()
    stated = (line.split(maxsplit=1) for line in lines if line.strip() and line[0] != "#")
    return {key: value.strip() for key, value in stated}


def delta() -> dict[str, str]:
    """Return the setting that brings Delta's JARs; fetch them if they are not there yet.

    Raises RunError if delta-spark is not installed, or they cannot be fetched.
    """
    script = Path(os.environ.get(JARS) or Path(sys.prefix) / "flowcontrol" / "jars")
    if jars := sorted(map(str, script.glob("*.jar"))):
        return {"spark.jars": ",".join(jars)}
    spark = ".".join(metadata.version("pyspark").split(".")[:2])
    try:
        version = metadata.version("delta-spark")
    except metadata.PackageNotFoundError as error:
        raise RunError(
            "Spark needs Delta's JARs and delta-spark is not installed: install the release of it "
            f"that fits pyspark {spark}, or start through ./spark-submit.sh of a checkout"
        ) from error
    artifact = f"delta-spark_{spark}_2.13"
    folder = Path.home() / ".cache" / "flowcontrol" / f"{artifact}-{version}"
    if not folder.exists():
        fetch(f"io.delta:{artifact}:{version}", folder)
    return {"spark.jars": ",".join(sorted(map(str, folder.glob("*.jar"))))}


def fetch(package: str, folder: Path) -> None:
    """Fetch a package's JARs by Spark's own resolver, once: else every start would resolve them.

    ``folder``: where to; it appears when all of them are there.

    Raises RunError if it does not work, with the first line of the resolver that says why.
    """
    from pyspark.find_spark_home import _find_spark_home

    announce_step("fetching Delta's JARs", "10 s to a minute, once")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=folder.parent) as ivy:
        nothing = Path(ivy) / "nothing.py"
        nothing.touch()
        command = [f"{_find_spark_home()}/bin/spark-submit", "--master", "local[1]"]
        command += ["--conf", f"spark.jars.ivy={ivy}", "--packages", package]
        command += ["--exclude-packages", settings("delta.conf")["spark.jars.excludes"]]
        done = subprocess.run([*command, str(nothing)], capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stderr + done.stdout).strip().splitlines() or ["no reason given"]
            why = next((line for line in lines if _WHY.search(line)), lines[-1]).strip()
            raise RunError(
                f"Delta's JARs ({package}) could not be fetched: {why}; put them into a folder and "
                f"name that by {JARS}"
            )
        with suppress(OSError):  # another process was quicker
            (Path(ivy) / "jars").replace(folder)


def own_spark() -> None:
    """Have pyspark start the Spark that it came with: one in SPARK_HOME is another version."""
    import pyspark

    home = Path(pyspark.__file__).parent
    if (home / "bin" / "spark-submit").exists():
        os.environ["SPARK_HOME"] = str(home)


def require_java() -> None:
    """Make sure that Spark finds a Java that is new enough, by JAVA_HOME or by the PATH.

    Raises RunError if there is none.
    """
    newest = 0
    for java in _javas():
        version = java_version(java)
        if version >= LEAST_JAVA:
            if java != _of_home():
                os.environ.pop("JAVA_HOME", None)
            return
        newest = max(newest, version)
    found = f"only Java {newest}" if newest else "none"
    raise RunError(
        f"Spark needs Java {LEAST_JAVA} or newer and {found} was found by JAVA_HOME or PATH: "
        "install one (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install "
        "openjdk@17), or use the virtual clock, which needs no Java"
    )


def _of_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _javas() -> Iterator[Path]:
    found = shutil.which("java")
    for java in (_of_home(), Path(found) if found else None):
        if java is not None and os.access(java, os.X_OK):
            yield java


def java_version(java: Path) -> int:
    """Return the feature version, such as 17, of a Java; 0 if it does not say.

    Its ``release`` file saves starting a JVM.
    """
    release = java.resolve().parent.parent / "release"
    try:
        text = release.read_text("utf-8")
        match = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    except OSError:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "(\d+)', said.stderr)
    return int(match[1]) if match else 0
