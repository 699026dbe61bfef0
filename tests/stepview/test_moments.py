"""What is shown of a run: times are read, refused with place, value and limit, made into rounds."""

from __future__ import annotations

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.stepview import step as module
from flowcontrol.stepview.step import moments, read_window
from modules import load

jobs = load("tests/stepview/jobs.py")

REFUSED = [
    ("x", "3", ["--from: 'x'", "at most the run's 6"]),
    ("-1", "3", ["--from: '-1'"]),
    (1.0, 7.0, ["--to: 7 is out of range", "at most the run's 6"]),
    ("nan", "inf", ["--from: 'nan'", "--to: 'inf'"]),
    (3, 3, ["--to: 3 is not after --from 3"]),
]


@pytest.mark.parametrize(("start", "end", "texts"), REFUSED)
def test_a_time_is_refused_with_place_value_and_limit(start, end, texts) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_window(start, end, 6.0, "lanes.yaml")
    for text in texts:
        assert text in str(caught.value)


def test_systems_with_other_rounds_are_shown_at_the_same_moments() -> None:
    short, long = jobs.job_of(jobs.FORWARD, 5000), jobs.job_of(jobs.FORWARD, 20000)
    found = moments([long, short], *read_window("1.0005", "1.1", 6.0, ""), "lanes")
    assert (found.step_us, found.first_us, found.last_us) == (5000, 1_005_000, 1_100_000)
    assert found.steps == 20
    assert found.rounds(short) == (200, 219)
    assert found.rounds(long) == (49, 54)


def test_a_run_is_shown_from_its_first_round() -> None:
    short, long = jobs.job_of(jobs.FORWARD, 5000), jobs.job_of(jobs.FORWARD, 20000)
    found = moments([short, long], 0, 100_000, "lanes")
    assert (found.first_us, found.rounds(long)) == (20_000, (0, 4))
    with pytest.raises(ScenarioError, match=r"--to: 0\.01 is before the end of the first round"):
        moments([short, long], 0, 10_000, "lanes")


def test_too_many_rounds_or_channels_are_refused(monkeypatch) -> None:
    job = jobs.job_of(jobs.BARRIERS)
    with pytest.raises(ScenarioError, match=r"10,001 rounds of 5 ms .* 10,000 of a page"):
        moments([job], 5000, 5000 * 10_001, "lanes")
    monkeypatch.setattr(module, "MOST_CHANNELS", 3)
    with pytest.raises(ScenarioError, match=r"edges: the job has 4 channels, more than the 3"):
        moments([job], 5000, 10_000, "lanes")
