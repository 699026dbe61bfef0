"""How a test starts a JVM that lives for seconds: its start is most of what it costs."""

from __future__ import annotations

import os
from pathlib import Path

LOG_SETTINGS = Path(__file__).resolve().parents[1] / "scripts/spark-conf/log4j2.properties"

CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What runs a few times is not worth compiling twice: half of the time."""


def java_environment() -> dict[str, str]:
    """Return the variables of such a JVM.

    With the archive of classes that scripts/archive_classes.py makes, it starts in half the time.
    """
    folder = Path(os.environ.get("FLOWCONTROL_CLASSES", "none"))
    if not (folder / "classes.jsa").exists():
        return {"JDK_JAVA_OPTIONS": CHEAP}
    return with_archive(folder, f"-XX:SharedArchiveFile={folder}/classes.jsa")


def with_archive(folder: Path, option: str) -> dict[str, str]:
    """Return the variables of a JVM that makes the archive in a folder, or reads it."""
    # A folder on the class path that has a file in it forbids an archive: Spark's settings do.
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    settings = f"-Dlog4j2.configurationFile={LOG_SETTINGS} -Xlog:cds=off -Xlog:cds+dynamic=off"
    return {"SPARK_CONF_DIR": str(conf), "JDK_JAVA_OPTIONS": f"{CHEAP} {settings} {option}"}
