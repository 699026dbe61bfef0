"""Archive the classes that Spark loads at a start, so that tests start it sooner.

    python scripts/archive_classes.py FOLDER

FOLDER/classes.jsa is made unless it is there; ``FLOWCONTROL_CLASSES=FOLDER`` is how tests find it
(tests/jvm.py). A start that writes and reads one table takes 26 s of processor time without it and
19 s with it (medians of three), and the checks start Spark some 25 times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from jvm import delta_jars, read_settings, with_archive  # noqa: E402


def made_from() -> str:
    """Return what an archive is good for: one Java, one Spark, one set of jars."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    texts = [path.read_text() for path in (Path(__file__), ROOT / "tests/jvm.py")]
    return "\n".join([version, os.environ["SPARK_HOME"], *delta_jars(), *texts])


def run_spark(folder: Path) -> None:
    """Use what tests use of Spark, so that its classes are loaded, and wait for the JVM's end."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(delta_jars()))
    for key, value in read_settings(ROOT / "flowcontrol/spark/defaults.conf").items():
        builder = builder.config(key, value)
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
    if new.exists():
        stamp.write_text(wanted)
        new.rename(archive)
    else:  # tests find none, and start Spark as they did before
        print("this Java writes no archive of classes")


if __name__ == "__main__":
    main()
