"""The tables of docs/explanation/real-flink.md: what Flink and the emulation made of scenarios.

    python bench/real_flink/report.py [FOLDER ...]

Prints them from ``measured/scenarios.json`` (conf/), ``measured/requests.json`` (the shapes of
``shapes/requests/``), ``measured/time.json`` (those of ``shapes/time/``, and scenarios of conf/
with windows) and ``measured/faults.json`` (those of ``shapes/faults/``). With folders, such as
``out/real_flink/*``, that ``scenario_run.py`` wrote, their comparisons replace those of the same
scenario and version first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from beside import number
from flink_run import HERE

KEPT = HERE / "measured" / "scenarios.json"
SENT = HERE / "measured" / "requests.json"
SHAPES = HERE / "shapes" / "requests"
TIMED = HERE / "measured" / "time.json"
TIMED_SHAPES = HERE / "shapes" / "time"
FAULTED = HERE / "measured" / "faults.json"
FAULTED_SHAPES = HERE / "shapes" / "faults"
TIMED_OF_CONF = ("idle-source", "late-data", "skewed-sources", "watermark-lag", "window-burst")

Figures = dict[str, list[list[Any]]]
"""By version and scenario: begin, end, place, figure, measured, emulated."""

HEAD = (
    "| scenario | Flink | s | records/s | source blocked, ms/s | in flight | latency p50, ms |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)

FIGURES = {
    "delivered": "delivered/s",
    "requests in flight": "requests in flight",
    "batch": "batch",
    "failed records": "failed records, %",
    "failed requests": "failed requests, %",
    "busy": "busy, ms/s",
}
"""Columns of the table of requests, by figure."""

HEAD_OF_REQUESTS = f"| shape | Flink | {' | '.join(FIGURES.values())} |\n|{' --- |' * 8}"


FIGURES_OF_TIME = {
    "watermark lag": "lag, ms",
    "paused": "paused, ms/s",
    "open windows": "open windows",
    "results": "results/s",
    "delay p50": "delay p50, ms",
    "delay p99": "p99",
    "late": "late/s",
    "windows": "windows, alike",
}
"""Columns of the table of event time, by figure; of the last stage that has it."""

HEAD_OF_TIME = f"| shape | Flink | s | {' | '.join(FIGURES_OF_TIME.values())} |\n|{' --- |' * 11}"


FIGURES_OF_FAULTS = {
    "tasks": "tasks",
    "downtime": "downtime, s",
    "processed again": "records again",
    "catching up": "catching up, s",
    "job failed": "job failed at, s",
}
"""Columns of the table of failures, by figure."""

HEAD_OF_FAULTS = (
    f"| shape | Flink | failure | {' | '.join(FIGURES_OF_FAULTS.values())} |\n|{' --- |' * 8}"
)


def read(path: Path | None = None) -> Figures:
    """Return what is kept."""
    found: Figures = json.loads((path or KEPT).read_text(encoding="utf-8"))
    return found


def take(folders: Sequence[Path], path: Path | None = None) -> None:
    """Keep the comparisons of some folders, named ``SCENARIO-VERSION``."""
    path = path or KEPT
    kept = read(path) if path.exists() else {}
    for folder in folders:
        name, _, version = folder.name.rpartition("-")
        rows = json.loads((folder / "beside.json").read_text(encoding="utf-8"))
        kept[f"{name} {version}"] = [
            [
                *(*row["window"], row["place"], row["figure"]),
                *(_short(row["measured"]), _short(row["emulated"])),
            ]
            for row in rows
        ]
    lines = [f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def lines(kept: Figures) -> Iterator[str]:
    """Yield the rows of the table: measured / emulated, a row a phase."""
    for key, rows in kept.items():
        name, version = key.split(" ")
        for window in dict.fromkeys((row[0], row[1]) for row in rows):
            own = [row[2:] for row in rows if (row[0], row[1]) == window]
            rates = [row for row in own if row[1] == "records"]
            blocked = [row for row in own if row[1] == "blocked"]
            held = [row for row in own if row[1] == "in flight"]
            waits = [row for row in own if row[1] == "latency p50"]
            totals = ["in flight", "", sum(row[2] for row in held), sum(row[3] for row in held)]
            cells = (rates[-1], blocked[0], totals if held else None, waits[0] if waits else None)
            phase = f"{window[0]:g}-{window[1]:g}"
            yield f"| {name} | {version} | {phase} | {' | '.join(map(_cell, cells))} |"


def lines_of_requests(kept: Figures) -> Iterator[str]:
    """Yield the rows of the table of requests: measured / emulated."""
    for key, rows in kept.items():
        name, version = key.split(" ")
        [place] = {row[2] for row in rows if row[3] == "delivered"}
        own = {row[3]: row[2:] for row in rows if row[2] == place}
        cells = [
            [*row[:2], *(100 * value for value in row[2:])] if "failed" in figure else row
            for figure, row in ((figure, own[figure]) for figure in FIGURES)
        ]
        texts = (" / ".join(map(number, row[2:])) for row in cells)
        yield f"| {name} | {version} | {' | '.join(texts)} |"


def lines_of_time(kept: Figures) -> Iterator[str]:
    """Yield the rows of the table of event time: measured / emulated, a row a phase."""
    for key, rows in kept.items():
        name, version = key.split(" ")
        phases = [(row[0], row[1]) for row in rows if row[3] == "records"]
        for begin, end in dict.fromkeys(phases):
            own = {row[3]: row[2:] for row in rows if row[:2] == [begin, end]}
            if "watermark lag" not in own:
                continue  # nothing was read
            own |= {row[3]: row[2:] for row in rows if row[3] == "windows"}
            own |= {row[3]: row[2:] for row in rows if row[:2] == [begin, end] and _pauses(row)}
            cells = (_time_cell(own.get(figure)) for figure in FIGURES_OF_TIME)
            yield f"| {name} | {version} | {begin:g}-{end:g} | {' | '.join(cells)} |"


def lines_of_faults(kept: Figures) -> Iterator[str]:
    """Yield the rows of the table of failures: measured / emulated, a row a restart."""
    for key, rows in kept.items():
        name, version = key.split(" ")
        for place in dict.fromkeys(row[2] for row in rows if row[2].startswith("failure ")):
            own = {row[3]: row[2:] for row in rows if row[2] == place}
            cells = (_time_cell(own.get(figure)) for figure in FIGURES_OF_FAULTS)
            yield f"| {name} | {version} | {place.split()[1]} | {' | '.join(cells)} |"


def _pauses(row: list[Any]) -> bool:
    return bool(row[3] == "paused" and row[4] > 0)


def _time_cell(row: list[Any] | None) -> str:
    return "" if row is None or row[2] == row[3] == 0 else " / ".join(map(number, row[2:]))


def _cell(row: list[Any] | None) -> str:
    return "" if row is None else f"{_number(row[2])} / {_number(row[3])}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == 0 else f"{value:.1f}"


def main(folders: Sequence[str]) -> None:
    """Keep what is given, and print the table."""
    given, shapes = [Path(one) for one in folders], {file.stem for file in SHAPES.iterdir()}
    timed = {*(file.stem for file in TIMED_SHAPES.iterdir()), *TIMED_OF_CONF}
    own = [one for one in given if one.name.rpartition("-")[0] in shapes]
    times = [one for one in given if one.name.rpartition("-")[0] in timed]
    faulted = {file.stem for file in FAULTED_SHAPES.iterdir()}
    faults = [one for one in given if one.name.rpartition("-")[0] in faulted]
    rest = [one for one in given if one not in (*own, *times, *faults)]
    for path, found in ((SENT, own), (TIMED, times), (FAULTED, faults), (KEPT, rest)):
        if found:
            take(found, path)
    print("\n".join([HEAD, *lines(read())]))
    print("\n".join(["", HEAD_OF_REQUESTS, *lines_of_requests(read(SENT))]))
    print("\n".join(["", HEAD_OF_TIME, *lines_of_time(read(TIMED))]))
    print("\n".join(["", HEAD_OF_FAULTS, *lines_of_faults(read(FAULTED))]))


if __name__ == "__main__":
    main(sys.argv[1:])
