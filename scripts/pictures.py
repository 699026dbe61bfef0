"""The pictures of README.md and of the site, from runs: docs/pictures.

    ./spark-submit.sh scripts/pictures.py [report] [watch]

``report.png`` is the top of the page of the classic experiment on the virtual clock, taken by a
headless Chromium. ``watch.svg`` is the terminal of ``flowcontrol watch`` beside two queries with a
link between them, whose sink takes half of what comes: two minutes. Without a name both are made.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    from flowcontrol.link.monitoring.figures import LinkSnapshot
    from flowcontrol.link.monitoring.monitor import LinkMonitor

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
PAGE_SIZE: Final = "960,1176"
"""Width and height of the part of the page that is shown, pixels."""

ROWS_PER_S: Final = 4000
SINK_ROWS_PER_S: Final = 2000
TARGET_S: Final = 2.0
RUN_S: Final = 120.0
"""Long enough for the link to fill and for batches to settle."""

COLUMNS: Final = 80
LINE_HEIGHT: Final = 24.4
"""Of rich's drawing, pixels; a character is half as wide."""

TERMINAL: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} HEIGHT">
<style>
{styles}
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
</style>
<rect width="{terminal_width}" height="HEIGHT" rx="8" fill="#292929"/>
<g transform="translate(12, 10)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""rich's own format has a frame of a window, and a font that is loaded from elsewhere."""


def report() -> None:
    """Run the experiment, and take a picture of its page."""
    import flowcontrol

    browser = next((name for name in BROWSERS if shutil.which(name)), None)
    if browser is None:
        raise SystemExit(f"pictures.py: none of {', '.join(BROWSERS)} is on the PATH: install one")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        flowcontrol.emulate(ROOT / "conf" / "experiment.yaml", clock="virtual", out=run)
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={PAGE_SIZE}", f"--screenshot={PICTURES / 'report.png'}"]
        subprocess.run([*command, (run / "report.html").as_uri()], check=True, capture_output=True)


def watch(spark: SparkSession) -> None:
    """Run two queries with a link between them, and keep what ``flowcontrol watch`` shows."""
    from pyspark.sql import functions as F

    from flowcontrol import Link
    from flowcontrol.link.monitoring.monitor import LinkMonitor

    def slow_sink(rows: DataFrame, batch_id: int) -> None:
        time.sleep(rows.count() / SINK_ROWS_PER_S)

    rate = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_S).load()
    events = rate.withColumn("customer_id", F.pmod(F.hash("value"), F.lit(1000)))
    events = events.withColumn("note", F.expr("repeat('x', 200)"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders"
        link = Link(
            path, key="customer_id", schema=events.schema, target_batch_s=TARGET_S,
            buffer_bytes="256 KiB", floating_buffers=8,
        )  # fmt: skip
        up = events.writeStream.foreachBatch(link.sender("events"))
        down = link.receive(spark).writeStream.foreachBatch(slow_sink)
        queries = [
            (writer.option("checkpointLocation", f"{folder}/{name}"), [])
            for name, writer in (("a", up), ("b", down))
        ]
        snapshot = observed(LinkMonitor(str(path), "orders"), queries)
    draw(snapshot)


def draw(snapshot: LinkSnapshot) -> None:
    """Draw what a terminal of 80 columns shows of a link."""
    from rich.console import Console
    from rich.text import Text

    from flowcontrol.link.monitoring.table import render

    console = Console(width=COLUMNS, force_terminal=True, highlight=False, file=StringIO())
    console.print(render([snapshot]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    # Two columns more than there are leave a margin at the right.
    wide = Console(width=COLUMNS + 2, record=True, force_terminal=True, file=StringIO())
    wide.print(Text.from_ansi("\n".join(lines)))
    made = wide.export_svg(code_format=TERMINAL, unique_id="watch")
    made = re.sub(r' clip-path="[^"]*"', "", made)
    made = made.replace("HEIGHT", f"{LINE_HEIGHT * len(lines) + 20:.0f}")
    (PICTURES / "watch.svg").write_text(made, encoding="utf-8")


def observed(
    monitor: LinkMonitor, queries: list[tuple[DataStreamWriter, list[StreamingQuery]]]
) -> LinkSnapshot:
    """Return a link's last figures, once its queries have run for a time; they are stopped then."""
    until = time.monotonic() + 2 * RUN_S
    while True:
        snapshot = monitor.snapshot()
        for writer, runs in queries:
            # On a busy machine Spark may wait in vain for a worker: the query goes on where it was.
            if not runs or not runs[-1].isActive:
                runs.append(writer.start())
                until = time.monotonic() + RUN_S
        if time.monotonic() > until:
            break
        time.sleep(1.0)
    for _, runs in queries:
        runs[-1].stop()
    return snapshot


def main(names: list[str]) -> int:
    """Make the pictures of these names, or both."""
    if not names or "report" in names:
        report()
    if not names or "watch" in names:
        from flowcontrol.spark.session import get_session

        watch(get_session("pictures"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
