"""The runs that are kept, beside their emulation of today: the table of the documents.

    python bench/real_systems/kept.py [--write]

``--write`` puts the table into docs/explanation/real-systems.md, and what a preset agrees in into
flowcontrol/scenario/measured.yaml, which ``flowcontrol systems`` prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parent.parent / "real_flink"))

import pandas as pd
from beside import number
from figures import Row, rows
from programs import HERE, PROGRAMS
from run import KEPT, emulated

from flowcontrol.scenario.given import as_scenario
from flowcontrol.scenario.system import PRESETS

ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "explanation" / "real-systems.md"
TABLE = ROOT / "flowcontrol" / "scenario" / "measured.yaml"

BEGIN, END = "<!-- kept runs, by bench/real_systems/kept.py -->\n", "<!-- end -->\n"

HEAD = (
    "| name | real one | shape | date | agree | apart: measured / emulated |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)

LONGEST_APART = 3
"""So many figures that are apart are named."""


class Kept(NamedTuple):
    """A run that was kept.

    - ``samples``: as the program wrote them, indexed by time, s.
    """

    program: str
    shape: str
    version: str
    date: str
    samples: pd.DataFrame

    @property
    def scenario(self) -> Path:
        """File of its scenario."""
        return HERE / "shapes" / self.program / f"{self.shape}.yaml"

    def compared(self) -> list[Row]:
        """Emulate the scenario; return every figure of both."""
        scenario = as_scenario(self.scenario, [])
        return rows(scenario, self.samples, emulated(scenario))


def kept(folder: Path = KEPT) -> Iterator[Kept]:
    """Yield the runs, by program and shape."""
    for path in sorted(folder.glob("*.json")):
        own: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        at, program = own.pop("t"), own.pop("system")
        columns = {name: values for name, values in own.items() if name not in NO_SAMPLES}
        shape = path.stem.removeprefix(f"{program}-")
        samples = pd.DataFrame(columns, index=at)
        yield Kept(program, shape, own["version"], own["date"], samples)


NO_SAMPLES = {"version", "date", "late_ms", "latest_ms", "events"}


def line(run: Kept, found: list[Row]) -> str:
    """Return a run's line of the table."""
    apart = [row for row in found if not row.agrees]
    texts = [
        f"{row.place} {row.figure}, {row.window[0]:g} to {row.window[1]:g} s: "
        f"{number(row.measured)} / {number(row.emulated)}"
        for row in apart[:LONGEST_APART]
    ]
    if len(apart) > LONGEST_APART:
        texts.append(f"{len(apart) - LONGEST_APART} more")
    agree = f"{len(found) - len(apart)} of {len(found)}"
    cells = (f"`{run.program}`", run.version, run.shape, run.date, agree, "; ".join(texts))
    return f"| {' | '.join(cells)} |\n"


def preset_line(preset: str, runs: list[tuple[Kept, list[Row]]]) -> str:
    """Return a preset's line of measured.yaml."""
    version, date = runs[-1][0].version, max(run.date for run, _ in runs)
    found = [row for _, own in runs for row in own]
    agree = sum(row.agrees for row in found)
    return (
        f'{preset}: {{version: "{version}", date: "{date}", figures: {len(found)}, '
        f"agree: {agree}}}\n"
    )


def preset_of(run: Kept) -> str:
    """Return the preset that a run is compared with; empty if only a transport of its own is."""
    system = PROGRAMS[run.program].system
    return system if system in PRESETS else ""


def main(arguments: list[str]) -> int:
    """Compare, print the table, and write it if that is asked for."""
    compared = [(run, run.compared()) for run in kept()]
    text = HEAD + "".join(line(run, found) for run, found in compared)
    by_preset = groupby(sorted(compared, key=lambda one: preset_of(one[0])), _preset)
    presets = "".join(preset_line(name, list(own)) for name, own in by_preset if name)
    print(text + "\n" + presets, end="")
    if "--write" in arguments:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        behind = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{behind}", encoding="utf-8")
        head = TABLE.read_text(encoding="utf-8").partition("\n")[0]
        TABLE.write_text(f"{head}\n{presets or '{}' + chr(10)}", encoding="utf-8")
    return 0


def _preset(one: tuple[Kept, list[Row]]) -> str:
    return preset_of(one[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
