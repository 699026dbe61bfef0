"""The scenario of a sink that commits shows what its first lines say, on the virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.syntax import read_yaml
from flowcontrol.virtual import simulate

PATH = Path(__file__).resolve().parents[2] / "conf" / "two-phase-commit.yaml"


def run(failures: Any = None, **sink: Any) -> Any:
    """Return the samples of a run with another sink, or other failures."""
    mapping = read_yaml(PATH)
    mapping["stages"][-1] |= sink
    if failures is not None:
        mapping["failures"] = failures
    return simulate(parse_scenario(mapping)).tables["delivery"].to_pandas().set_index("t_s")


def test_readers_get_rows_in_steps_and_none_is_lost_or_twice() -> None:
    seen = run()
    steps = seen[seen.committed.diff() > 0]
    assert [round(t_s) for t_s in steps.index] == [10, 20, 30, 46, 56]
    assert (seen.visible_twice.max(), seen.lost.max()) == (0, 0)
    whole = steps.iloc[:3]
    assert whole.visibility_p50_ms.tolist() == pytest.approx([5050] * 3, rel=0.06)
    assert whole.visibility_max_ms.tolist()[1:] == pytest.approx([10_050] * 2, rel=0.01)
    assert seen.committed[40.0] == seen.committed[34.0]


@pytest.mark.parametrize(
    ("guarantee", "twice", "lost"), [("at-least-once", 1200, 0), ("at-most-once", 0, 8)]
)
def test_other_guarantees_double_or_lose(guarantee: str, twice: int, lost: int) -> None:
    last = run(guarantee=guarantee).iloc[-1]
    assert last.visible_twice == pytest.approx(twice, rel=0.01)
    assert last.lost == pytest.approx(lost, abs=6)


def test_what_is_to_be_tried() -> None:
    assert run([], transaction_timeout_s=5).lost.max() > 10_000
    dies = run([{"at_s": 30.04, "job_manager": True}])
    plain = run([])
    assert dies.committed[30.5] < plain.committed[30.5]
    assert (dies.visible_twice.max(), dies.lost.max()) == (0, 0)
