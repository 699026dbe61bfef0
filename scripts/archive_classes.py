"""Archive the classes that Spark loads at a start, so that tests start it in half the time.

    python scripts/archive_classes.py FOLDER

FOLDER/classes.jsa is made unless it is there; ``FLOWCONTROL_CLASSES=FOLDER`` is how tests find it
(tests/jvm.py). One start takes some 8 s of processor time without it (measured: 16 and 9 s on a
busy machine), and the checks start Spark some 25 times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from jvm import with_archive  # noqa: E402


def made_from() -> str:
    """Return what an archive is good for: one Java, one Spark, one set of jars."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    jars = sorted(Path(os.environ["FLOWCONTROL_JARS"]).glob("*.jar"))
    own = (Path(__file__), ROOT / "tests/jvm.py")
    texts = [path.read_text() for path in own]
    return "\n".join([version, os.environ["SPARK_HOME"], *map(str, jars), *texts])


def run_spark(folder: Path) -> None:
    """Use what tests use of Spark, so that its classes are loaded, and wait for the JVM's end."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    jars = ",".join(sorted(map(str, Path(os.environ["FLOWCONTROL_JARS"]).glob("*.jar"))))
    builder = builder.config("spark.jars", jars)
    for line in (ROOT / "scripts/spark-defaults.conf").read_text().splitlines():
        if line and not line.startswith("#"):
            builder = builder.config(*line.split(maxsplit=1))
    spark = builder.getOrCreate()
    spark.range(9).selectExpr("id % 3 AS key").groupBy("key").count().collect()
    for form in ("delta", "parquet"):
        spark.range(9).write.format(form).save(f"{folder}/{form}")
        spark.read.format(form).load(f"{folder}/{form}").collect()
    query = (
        spark.readStream.format("delta").load(f"{folder}/delta").writeStream
        .foreachBatch(lambda rows, _: rows.write.format("delta").save(f"{folder}/out"))
        .option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends, and writes the archive
    gateway.proc.wait()


def main() -> None:
    """Make the archive, unless it is there."""
    folder = Path(sys.argv[1]).absolute()
    archive, stamp, wanted = folder / "classes.jsa", folder / "made-from", made_from()
    if archive.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    archive.unlink(missing_ok=True)
    new = folder / "new.jsa"
    new.unlink(missing_ok=True)
    os.environ |= with_archive(folder, f"-XX:ArchiveClassesAtExit={new}")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as scratch:
        run_spark(Path(scratch))
    stamp.write_text(wanted)
    new.rename(archive)


if __name__ == "__main__":
    main()
