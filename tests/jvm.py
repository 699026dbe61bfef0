"""How a test starts a JVM that lives for seconds: its start is most of what it costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOG_SETTINGS = Path(__file__).resolve().parents[1] / "flowcontrol/spark/conf/log4j2.properties"

CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"
"""What runs a few times is not worth compiling twice: half of the time. Java takes a third of this
room for compiled code then; Spark with Delta fills it in a minute, and compiles no more."""


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings of a Spark properties file."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def delta_jars() -> list[str]:
    """Return Delta's JARs: where FLOWCONTROL_JARS says, or where the start script puts them."""
    folder = os.environ.get("FLOWCONTROL_JARS", f"{sys.prefix}/flowcontrol/jars")
    return sorted(str(path) for path in Path(folder).glob("*.jar"))


def delta_package() -> str:
    """Return the artifact of Delta that belongs to the Spark that is installed."""
    from importlib.metadata import version

    minor = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{minor}_2.13:{version('delta-spark')}"


def java_environment() -> dict[str, str]:
    """Return the variables of such a JVM.

    With the archive of classes that scripts/archive_classes.py makes, it starts sooner.
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
