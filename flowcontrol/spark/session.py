"""What queries need of a Spark session: its settings, sources that they may share, and Ctrl-C.

While Spark starts an interrupt waits, while queries run it asks for an end between batches.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import RunError
from flowcontrol.install import how_to_install
from flowcontrol.notices import announce_step
from flowcontrol.spark.start import prepare
from flowcontrol.spark.versions import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

LAUNCHERS = {"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"}
"""Environment variables that are set if somebody else has chosen Spark's settings."""


def get_session(name: str, *, short_jobs: bool = False) -> SparkSession:
    """Return the running session, or start one.

    Where a launcher has chosen settings already (``spark-submit.sh``, spark-submit, a platform),
    they are kept. Else they are those of :func:`flowcontrol.spark.start.prepare`.

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
