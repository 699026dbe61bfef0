"""A run whose first states nobody looks at has the same later ones."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from flowcontrol.results.running import step
from modules import load

jobs = load("tests/stepview/jobs.py")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("FORWARD", {"system": "flink-1.4"}),
        ("BARRIERS", {}),
        ("BARRIERS", {"system": "storm-1", "options": {}}),
    ],
    ids=lambda value: str(value)[:25],
)
def test_states_from_a_round_on_are_those_of_the_whole_run(
    name: str, changes: dict[str, Any]
) -> None:
    """What a round did, and what a socket holds, do not depend on who looked before."""
    job = jobs.job_of(getattr(jobs, name), **changes)
    whole = list(islice(step(job), 420))
    for first in (1, 2, 250):
        assert list(islice(step(job, first=first), 420 - first)) == whole[first:]
    way = whole[-1].channel("A->B", 0, 0)[0].under_way
    assert way or name == "BARRIERS"
