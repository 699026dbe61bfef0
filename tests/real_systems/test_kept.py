"""What the documents and the presets say of real systems is what the kept runs show today."""

from __future__ import annotations

from collections import Counter

import kept
import programs
import pytest

from flowcontrol.scenario.system import MEASURED, PRESETS

RUNS = list(kept.kept())
TABLE = [
    line for line in kept.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
]


def of(run: kept.Kept) -> list[str]:
    """Return the lines of a run in the table of the documents."""
    return [
        line
        for line in TABLE
        if line.startswith(f"| `{run.program}` | {run.version} | {run.shape} |")
    ]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run,
            id=f"{run.program} {run.shape}",
            marks=[] if run.shape == "slow-sink" else pytest.mark.long,
        )
        for run in RUNS
    ],
)
def test_a_kept_run_agrees_as_the_table_says(run: kept.Kept) -> None:
    assert of(run) == [kept.line(run, run.compared()).rstrip("\n")]


def test_each_run_that_is_kept_has_its_line() -> None:
    shapes = {(program, path.stem) for program in programs.PROGRAMS for path in
              (programs.HERE / "shapes" / program).glob("*.yaml")}  # fmt: skip
    assert {(run.program, run.shape) for run in RUNS} <= shapes
    assert [len(of(run)) for run in RUNS] == [1] * len(RUNS)


def test_a_preset_has_the_sums_of_its_runs() -> None:
    agree, figures = Counter[str](), Counter[str]()
    for run in RUNS:
        [line] = of(run)
        own, _, every = line.split(" | ")[4].partition(" of ")
        agree[kept.preset_of(run)] += int(own)
        figures[kept.preset_of(run)] += int(every)
    presets = {name for name in agree if name}
    assert presets == set(MEASURED) <= set(PRESETS)
    assert {name: agree[name] for name in presets} == {n: one.agree for n, one in MEASURED.items()}
    assert {name: figures[name] for name in presets} == {
        name: one.figures for name, one in MEASURED.items()
    }
