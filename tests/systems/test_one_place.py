"""Transport and throttle: each has a file and a row, and is named nowhere else without a reason."""

from __future__ import annotations

import re
from functools import cache

import pytest
import yaml

from flowcontrol.scenario.refusals import FEATURES
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.systems.transports.rules import names
from modules import ROOT

PACKAGE = ROOT / "flowcontrol"
ROWS = {"parts.yaml", "presets.yaml", "records.yaml"}
ELSEWHERE = {
    "half_return_credit": {"batched_credit.py"},  # its permits come back by the same rule
    "rate_window": {"physical_graph.py"},  # a packet weighs more than its records
    "hop_hysteresis": {"refusals.yaml", "charts.yaml"},  # its switch is a task's
    "blocking_queue": {"refusals.yaml"},  # what to use in place of that
    "unbounded": {"charts.py", "spark_progress.py"},  # it grants nothing; Spark's own
    "pid_rate": {"system.py"},  # has an alias
    "long_batches": {"refusals.yaml"},  # what real-time mode does not allow
    # Spark's batches are this throttle's, and so are the triggers that a measured job has.
    "static_admission": {
        *("system.py", "time_checks.py", "rules.py", "spark_progress.py", "refusals.yaml")
    },
}
"""Files that name a part beside its own, and why."""
LETTERS = re.compile(r"\w+")


@cache
def words() -> dict[str, set[str]]:
    """Return the words of each source, by the name of its file."""
    found: dict[str, set[str]] = {}
    for path in (path for kind in ("*.py", "*.yaml") for path in PACKAGE.rglob(kind)):
        text = path.read_text()
        if path.name == "refusals.yaml":  # its rows, not the scenarios that ask for them
            rows = [row for one in FEATURES.values() for row in one.get("rows", {}).values()]
            text = yaml.safe_dump([{**row, "with": {}} for row in rows])
        found.setdefault(path.name, set()).update(named_in(text))
    return found


def named_in(text: str) -> set[str]:
    """Return the words of a source without those of its comments and docstrings."""
    code = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    return set(LETTERS.findall(re.sub(r"#.*", "", code)))


@pytest.mark.parametrize("name", [*names(), *(one for one in THROTTLE_PARTS if one != "none")])
def test_a_part_is_one_file_and_one_row(name: str) -> None:
    found = {file for file, text in words().items() if name in text}
    assert found - ROWS - {f"{name}.py"} == ELSEWHERE.get(name, set())


def test_both_kinds_are_there() -> None:
    assert len(names()) >= 8
    assert len(THROTTLE_PARTS) >= 7
    assert set(ELSEWHERE) <= {*TRANSPORT_PARTS, *THROTTLE_PARTS}
