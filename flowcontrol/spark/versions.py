"""Differences between the supported versions of Spark: 4.0 to 4.3.

Everything that asks for a version asks here. ``scripts/supported.yaml`` says what
each of them can do.
"""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Final

from flowcontrol.errors import RunError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


Version = tuple[int, int]

OLDEST: Final[Version] = (4, 0)
"""The first with streaming sources in Python that yield Arrow (``DataSourceStreamReader``)."""

READ_LIMITS: Final[Version] = (4, 2)
"""The first that tells a source in Python where a batch begins (``latestOffset(start, limit)``)
and that an ``availableNow`` query reads to its end (SPARK-54085)."""

DELTA_UP_TO: Final[Version] = (4, 2)
"""The last for which delta-spark has a release. A link needs none: delta-rs writes its tables."""

ARROW_SINKS: Final[Version] = (4, 1)
"""The first that names sinks in Python that take Arrow (``DataSourceStreamArrowWriter``)."""

_MOVED: Final[Version] = (4, 1)
"""The first with the package ``...execution.streaming.checkpointing``."""


def parse_version(text: str) -> Version:
    """Return major and minor version.

    ``text``: as pyspark gives it, such as ``4.1.1`` or ``4.2.0.dev0``.

    Raises ValueError if it does not begin with two numbers.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"{text!r} is not a version of Spark")
    return int(found[1]), int(found[2])


def spark_version() -> Version:
    """Return the version of the pyspark that is installed."""
    from pyspark import __version__

    return parse_version(__version__)


def require_spark() -> None:
    """Refuse a pyspark that is too old.

    Raises RunError if it is older than :data:`OLDEST`.
    """
    found = spark_version()
    if found < OLDEST:
        raise RunError(
            f"flowcontrol needs Spark {_said(OLDEST)} or newer, and pyspark {_said(found)} is "
            "installed: older ones have no streaming sources in Python. Use a newer platform, or "
            "the virtual clock (--clock virtual), which needs no Spark"
        )


def has_read_limits(version: Version | None = None) -> bool:
    """Whether Spark says where a batch begins, and lets ``availableNow`` read to the end.

    ``version``: by default that of the pyspark that is installed.
    """
    return (spark_version() if version is None else version) >= READ_LIMITS


def has_delta(version: Version | None = None) -> bool:
    """Whether there is a delta-spark: without one Spark neither reads nor writes Delta tables.

    ``version``: by default that of the pyspark that is installed.
    """
    return (spark_version() if version is None else version) <= DELTA_UP_TO


def has_arrow_sinks() -> bool:
    """Whether the pyspark that is installed names sinks that take Arrow."""
    return spark_version() >= ARROW_SINKS


def checkpoint_file_manager(version: Version | None = None) -> str:
    """Return the class that writes checkpoint files by rename.

    ``version``: by default that of the pyspark that is installed.
    """
    package = "org.apache.spark.sql.execution.streaming"
    if (spark_version() if version is None else version) >= _MOVED:
        package += ".checkpointing"
    return f"{package}.FileSystemBasedCheckpointFileManager"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return columns as Arrow has them; times are UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if has_read_limits():
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema, timestamp_utc=True)  # type: ignore[call-arg]  # 4.0 and 4.1


def _said(version: Version) -> str:
    return ".".join(map(str, version))


# --- What tasks in Spark's Python workers share.


LOADED_AFTER = 3
"""Tasks after which a worker has loaded all that it ever will."""

_tasks_run = 0


def freeze_loaded() -> None:
    """Freeze the objects that a worker has loaded, so that the garbage collector skips them.

    Spark's Python worker collects garbage after every task. With the modules of pandas and pyarrow
    loaded that took some 20 ms a task, nine tenths of a worker's CPU time.
    """
    global _tasks_run
    if _tasks_run < LOADED_AFTER:
        _tasks_run += 1
        gc.freeze()
