"""The needs of queries in a Spark session: settings, shared sources, and Ctrl-C.

While Spark starts an interrupt waits, while queries run it asks for an end between batches.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata, resources
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import RunError
from flowcontrol.notices import announce_step
from flowcontrol.spark.versions import checkpoint_file_manager, has_delta, require_spark
from flowcontrol.version import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


# --- Spark in a plain Python process, as ``spark-submit.sh`` starts it: Java, settings, Delta's
# JARs.
#
# What the script does and this does not: make an environment, and send the package to the executors
# of a cluster. So the session is a local one.


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
    if has_delta():
        found |= delta()
    else:
        found = without_delta(found)
    return found | {CHECKPOINT_FILES: checkpoint_file_manager()}


def without_delta(found: Mapping[str, str]) -> dict[str, str]:
    """Return settings without those that name classes of Delta."""
    return {key: value for key, value in found.items() if ".delta." not in f".{value}"}


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


LAUNCHERS = {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"}
"""Environment variables that are set if somebody else has chosen Spark's settings."""


def get_session(name: str, *, short_jobs: bool = False) -> SparkSession:
    """Return the running session, or start one.

    Where a launcher has chosen settings already (``spark-submit.sh``, spark-submit, a platform),
    they are kept. Else they are those of :func:`prepare`.

    ``short_jobs``: choose settings for many jobs on some rows, if it is started here.

    Raises RunError if pyspark or Java is missing, or Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise RunError(
            f"Spark is needed and pyspark is not installed: {how_to_install('spark')}, or use the "
            "virtual clock"
        ) from error
    require_spark()
    builder = SparkSession.builder
    is_ours = SparkSession.getActiveSession() is None and not is_started()
    if is_ours:
        if not is_launched():
            builder = builder.appName(name)
            for key, value in prepare(short_jobs=short_jobs).items():
                builder = builder.config(key, value)
        announce_step("starting Spark", "4 to 10 s")
    with holding_interrupts():
        session = builder.getOrCreate()
        if is_ours and short_jobs and is_started():  # one of Spark Connect runs elsewhere
            leave_out_checksums(session)
        return session


def leave_out_checksums(spark: SparkSession) -> None:
    """Have Hadoop write no checksum file beside each local file, as long as this Spark runs.

    A micro-batch writes two files of its checkpoint, four with those. Hadoop starts a process for
    each of them, ``chmod``, as Spark comes without its native library: 1.4 ms.
    """
    context = spark.sparkContext
    jvm: Any = context._jvm
    hadoop = context._jsc.hadoopConfiguration()
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop).setWriteChecksum(False)


def is_launched() -> bool:
    """Tell whether somebody else has chosen Spark's settings: ``spark-submit``, a platform."""
    return bool(LAUNCHERS & set(os.environ))


def is_started() -> bool:
    """Tell whether this process has a running Spark."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


WRITTEN_BY_QUERIES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What each query puts into the environment of its source as it starts
(``PythonStreamingSourceRunner.init`` of Spark 4); values are Spark's own, written over."""

_registering = threading.Lock()


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source whose queries may start at the same time.

    All queries on a source share one ``java.util.HashMap`` with the environment of its worker,
    and each puts the same few entries into it when it starts, in a thread of its own and without
    a lock. Two that insert at once leave a map that cannot be read back: the first task then fails
    with ``java.io.OptionalDataException``. With the entries there from the beginning nothing is
    inserted any more, only written over.

    A source that the session has, because Spark found it by itself (``pyspark_flowcontrol``) or a
    query before this one registered it, stays: Spark warns of each that replaces another.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no context on this side: its server has
        _register(spark, source)
        return
    with _registering:
        if _is_known(spark, source.name()):
            return
        before = context.environment
        # Another one in its place, and not more entries in this one: a running query whose batch
        # makes a Python function reads it in a thread of its own, entry by entry.
        context.environment = {**WRITTEN_BY_QUERIES, **before}
        try:
            _register(spark, source)
        finally:
            context.environment = before


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether a session has a source of this name; its environment is completed then.

    Spark answers in private classes: where they are others the source is registered again.
    """
    try:
        known = spark._jsparkSession.sessionState().dataSourceManager()
        if not known.dataSourceExists(name):
            return False
        environment = known.lookupDataSource(name).dataSourceCls().envVars()
        for key, value in WRITTEN_BY_QUERIES.items():
            environment.putIfAbsent(key, value)
    except Exception:  # py4j's
        return False
    return True


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a source, unless Spark has found it by itself (``pyspark_*``) and keeps that one.

    Spark 4.0 refuses to replace a source that it found; 4.1 and 4.2 replace it.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@contextmanager
def asking_on_interrupt(ask: Callable[[], None]) -> Iterator[None]:
    """Call a function on the first SIGINT instead of whatever would happen.

    pyspark's own handler (``SparkContext.__init__``) cancels all jobs, which ends a query in
    mid-batch, and raises ``KeyboardInterrupt``. It is back for a second SIGINT. Only the main
    thread of a process may have a handler: elsewhere nothing changes.

    ``ask``: called from the signal handler; must not block.
    """
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        ask()

    with _handling(handle):
        yield


@contextmanager
def holding_interrupts() -> Iterator[None]:
    """Let every SIGINT wait for the end of the block; raise one ``KeyboardInterrupt`` then.

    A JVM whose Python went away while it started (``pyspark.java_gateway``) cannot hand over
    its port, and stays for ever.
    """
    pressed: list[int] = []
    with _handling(lambda number, _frame: pressed.append(number)):
        yield
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a handler for SIGINT; afterwards the one of before, unless the block left another."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


_PYTHON_ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")


def cause_of(text: str) -> str:
    """Return the cause in the text of a streaming exception.

    Spark wraps what Python raised several times; the last line that names a Python exception
    is the one to read.
    """
    causes = [line for line in text.splitlines() if _PYTHON_ERROR.match(line)]
    lines = causes or [line for line in text.splitlines() if line.strip()]
    return lines[-1 if causes else 0].strip() if lines else "no reason given"
