"""Every benchmark that measures a ratio or a time, one behind the other: docs/performance.md.

    python bench/all.py [--only NAME ...] [--write] [--list]

Each program runs as a process of its own, prints what it always prints, and notes its figures
(:mod:`measured`). ``--write`` keeps them in ``bench/performance.json``, with the machine, the date
and how busy the machine was, and makes the page of what is kept; so some can be measured again by
themselves. Without it the tables are printed. Run it on a machine that does nothing else: all of it
takes about an hour and a half. Exits with 1 if a program failed or a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

from measured import FILE

HERE: Final = Path(__file__).resolve().parent
KEPT: Final = HERE / "performance.json"
PAGE: Final = HERE.parent / "docs" / "performance.md"

INTRO: Final = """\
# Performance

What to expect, compared with other programs that do the same job. `python bench/all.py --write`
measures everything and writes this page: a table for each program of `bench/`, with machine and
date. A program alternates its runs with those of its peer and takes medians, so ratios carry over
to other machines better than times.
"""


class Program(NamedTuple):
    """A benchmark.

    Attributes
    ----------
    name : str
        Of its file in ``bench/``.
    title : str
        Of its table.
    text : str
        What its figures are about.
    arguments : tuple of str
        It is run with these.
    spark : tuple of str or None
        Options for ``spark-submit.sh``; None: it needs no Spark.
    """

    name: str
    title: str
    text: str
    arguments: tuple[str, ...] = ()
    spark: tuple[str, ...] | None = None


PROGRAMS: Final = (
    Program(
        "virtual_speed",
        "The virtual clock",
        "Buffers from task to task per second of wall time, on one core, compared with queueing "
        "simulators that run the same job; and the time that large jobs take.",
    ),
    Program(
        "virtual_beside",
        "The virtual clock, compared with an earlier commit",
        "Processor time of a run with a kernel that is compiled already.",
    ),
    Program(
        "first_answer",
        "The first answer",
        "Processor time of `flowcontrol emulate` until the terminal shows the bottleneck, and of "
        "the first run, which compiles.",
    ),
    Program(
        "virtual_checkpoints",
        "Checkpoints on the virtual clock",
        "Processor time of a run with a checkpoint every emulated second.",
    ),
    Program(
        "virtual_event_time",
        "Event time on the virtual clock",
        "Processor time of a run with event times and watermarks every 200 ms.",
    ),
    Program(
        "sweep_time",
        "A sweep",
        "`flowcontrol sweep` from its start to its report, with a kernel that is compiled already.",
    ),
    Program(
        "sweep_gain",
        "The second core of a sweep",
        "Speed-up of a sweep on Spark with two cores, table and report included.",
        spark=(),
    ),
    Program(
        "micro_batch",
        "A round on the live clock",
        "A round of two stages, compared with two Spark queries that only pass a number to each "
        "other; several rounds per micro-batch compared with one; and eight stages in a row "
        "compared with two.",
        ("--ahead", "--chain"),
        spark=(),
    ),
    Program(
        "live_experiment",
        "A live emulation",
        "`conf/experiment.yaml`, 100 emulated seconds, from the command to its report, once.",
        ("--repeats", "1"),  # five minutes
    ),
    Program("ledger_age", "An old ledger", "Commit and look-up of both sides of a link."),
    Program(
        "link",
        "A link",
        "Rows per second from source to sink, and the latency of a row at a low rate, compared "
        "with a Delta table between two queries.",
        spark=("--driver-memory", "4g"),
    ),
    Program(
        "link_event_time", "A link with event time", "The same link with and without watermarks."
    ),
    Program(
        "sink_forms",
        "Two forms of a sender",
        "A function of `foreachBatch` and the sink by name, with the same files and link: rows a "
        "second, CPU time a row, and the time of a batch of one row.",
        spark=("--driver-memory", "4g"),
    ),
    Program(
        "slow_sink",
        "A link in front of a sink that slows down",
        "Rows that wait, and the time of micro-batches.",
        spark=(),
    ),
    Program(
        "link_or_limit",
        "A link, a static limit, or real-time mode",
        "The tutorial's sink that slows down, in each form, with a failure, once.",
        ("--repeats", "1"),  # half an hour
    ),
)
"""In the order of the page."""


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*: (.*)", info.read_text())):
        model = found[1]
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("pyspark", "numpy", "numba")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def run(program: Program) -> dict[str, Any]:
    """Run a program; return its figures, and where and when they were measured."""
    file = str(HERE / f"{program.name}.py")
    command = [sys.executable, file, *program.arguments]
    if program.spark is not None:
        start = str(HERE.parent / "spark-submit.sh")
        command = [start, *program.spark, file, *program.arguments]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as folder:
        notes = Path(folder) / "notes"
        notes.touch()
        environment = {**os.environ, FILE: str(notes)}
        status = subprocess.run(command, env=environment, check=False).returncode
        figures = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    return {
        "figures": figures,
        "status": status,
        "machine": machine(),
        "date": date.today().isoformat(),
        "load": round(load, 1),
    }


def is_met(figure: dict[str, Any]) -> bool:
    """Tell whether a figure reaches its goal; one without a goal does."""
    if figure["goal"] is None:
        return True
    if figure["is_met"] == "at least":
        return bool(figure["value"] >= figure["goal"])
    return bool(figure["value"] <= figure["goal"])


def page(kept: dict[str, Any]) -> str:
    """Return the page of what was measured; programs that never ran are left out."""
    parts = [INTRO]
    parts += [section(program, kept[program.name]) for program in PROGRAMS if program.name in kept]
    return "\n".join(parts)


def section(program: Program, found: dict[str, Any]) -> str:
    """Return a program's table."""
    lines = [f"## {program.title}\n", f"{program.text} `bench/{program.name}.py`\n"]
    lines += ["| what | compared with | measured | goal |", "| --- | --- | --- | --- |"]
    for figure in found["figures"]:
        goal = "" if figure["goal"] is None else f"{figure['is_met']} {shown(figure['goal'])}"
        missed = "" if is_met(figure) else ", **missed**"
        value = f"{shown(figure['value'])} {figure['unit']}{missed}"
        lines.append(f"| {figure['what']} | {figure['beside']} | {value} | {goal} |")
    on = found["machine"]
    spark = f", Spark {on['pyspark']}" if program.spark is not None else ""
    lines.append(
        f"\n{found['date']}: {on['processor']}, {on['cores']} cores, {on['memory_gb']} GB, Python "
        f"{on['python']}{spark}, numpy {on['numpy']}, numba {on['numba']}; {found['load']} other "
        "processes ran at the start.\n"
    )
    return "\n".join(lines)


def shown(value: float) -> str:
    """Return a figure with three digits, or all of a whole number."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main() -> int:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", default=[])
    parser.add_argument("--write", action="store_true", help="keep the figures, make the page")
    parser.add_argument("--list", action="store_true", help="print the programs and run none")
    options = parser.parse_args()
    chosen = [one for one in PROGRAMS if not options.only or one.name in options.only]
    if options.list:
        for program in chosen:
            print(f"{program.name:<20} {program.title}")
        return 0
    found = {}
    for program in chosen:
        print(f"--- {program.name}", flush=True)
        found[program.name] = run(program)
    if options.write:
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        kept |= {name: one for name, one in found.items() if one["figures"]}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(kept), encoding="utf-8")
    else:
        print(page(found))
    return int(any(one["status"] or not all(map(is_met, one["figures"])) for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
