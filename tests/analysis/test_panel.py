"""Panels: what each figure of rows is, whichever rows the samples have, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis.frames import panel_of, panels_of
from flowcontrol.analysis.panel import Panel, mean_over_time

Row = tuple[float, int, int, int]
"""Time of the sample, sender, receiver, figure."""

NAMES = ("t_s", "sender", "receiver", "figure")


def panel(rows: list[Row]) -> Panel:
    """Return rows as a panel, with intervals as long as their times are apart."""
    columns = {name: np.array([row[at] for row in rows]) for at, name in enumerate(NAMES)}
    times = sorted({row[0] for row in rows})
    lengths = {at: at - before for before, at in zip([0.0, *times], times, strict=False)}
    interval = np.array([lengths[row[0]] for row in rows])
    return Panel(columns.__getitem__, columns["t_s"].astype(float)).with_columns(
        interval_s=interval
    )


@st.composite
def sampled(draw: st.DrawFn) -> list[Row]:
    """Return the rows of some samples, each of some channels."""
    owners = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, unique=True)
    times = draw(st.lists(st.integers(1, 40), min_size=2, max_size=5, unique=True))
    return [
        (at / 4, *owner, draw(st.integers(0, 9))) for at in sorted(times) for owner in draw(owners)
    ]


def is_ragged(rows: list[Row]) -> bool:
    """Tell whether samples have different channels."""
    samples = defaultdict(set)
    for at, *owner, _ in rows:
        samples[at].add(tuple(owner))
    return len({frozenset(owners) for owners in samples.values()}) > 1


def ragged() -> st.SearchStrategy[list[Row]]:
    """Return rows whose samples do not all have the same channels."""
    return sampled().filter(is_ragged)


@given(ragged())
def test_sums_and_maxima_of_samples(rows: list[Row]) -> None:
    figures = defaultdict(list)
    for row in rows:
        figures[row[0]].append(row[3])
    sums, most = (panel(rows).per_sample(["figure"], how) for how in ("sum", "max"))
    assert sums["t_s"].tolist() == most["t_s"].tolist() == list(figures)
    assert sums["figure"].tolist() == [sum(own) for own in figures.values()]
    assert most["figure"].tolist() == [max(own) for own in figures.values()]
    assert sums["interval_s"].sum() == rows[-1][0]


@given(ragged(), st.integers(0, 2))
def test_means_weigh_by_the_intervals(rows: list[Row], receiver: int) -> None:
    found = panel(rows).of("receiver", receiver)
    lengths = found["interval_s"].tolist()
    own = [row for row in rows if row[2] == receiver]
    weighted = sum(row[3] * length for row, length in zip(own, lengths, strict=True))
    mean = weighted / sum(lengths) if lengths else 0.0
    assert found.means(["figure", "t_s"])["figure"] == pytest.approx(mean)
    assert mean_over_time(found, "figure") == pytest.approx(mean)


@given(ragged())
def test_means_of_each_owner_are_those_of_its_rows(rows: list[Row]) -> None:
    found = panel(rows)
    means = found.means_by("sender", ["figure", "receiver"])
    assert list(means) == sorted({row[1] for row in rows})
    for sender, [figure, receiver] in means.items():
        own = found.of("sender", sender)
        assert figure == pytest.approx(mean_over_time(own, "figure"))
        assert receiver == pytest.approx(mean_over_time(own, "receiver"))


@given(ragged(), st.floats(0, 11), st.floats(0, 11))
def test_growth_is_the_last_figure_less_that_at_the_start(
    rows: list[Row], one: float, other: float
) -> None:
    window = (min(one, other), max(one, other))
    groups, [growth] = panel(rows).growth(["sender", "receiver"], ["figure"], window)
    owners = sorted({row[1:3] for row in rows})

    def last(owner: Any, until: float) -> int:
        return next((row[3] for row in reversed(rows) if row[1:3] == owner and row[0] <= until), 0)

    assert len(groups.starts) == len(owners)
    assert growth.tolist() == [last(owner, window[1]) - last(owner, window[0]) for owner in owners]


@given(ragged(), st.floats(0, 11), st.floats(0, 11))
def test_a_window_begins_behind_its_start_and_ends_with_its_end(
    rows: list[Row], one: float, other: float
) -> None:
    window = (min(one, other), max(one, other))
    found = panel(rows).within(window)
    expected = [row for row in rows if window[0] < row[0] <= window[1]]
    assert [tuple(row) for row in found.matrix(NAMES).T.tolist()] == expected


def test_an_interval_ends_with_its_sample(builder: ModuleType) -> None:
    rows = panel_of(builder.Results([5.0, 10.0]).stage("a").tables(), "stages")
    assert rows.within((5.0, 10.0))["t_s"].tolist() == [10.0]
    assert rows.within((0.0, 5.0))["t_s"].tolist() == [5.0]


def test_nothing_has_no_figures() -> None:
    nothing = panel_of({}, "channels")
    assert len(nothing) == len(nothing.samples.starts) == 0
    assert nothing.means(["sent"]) == {"sent": 0.0}
    assert nothing.means_by("sender", ["sent"]) == {}
    assert len(nothing.per_sample(["sent"])) == 0
    assert nothing.growth(["sender", "receiver"], ["sent"], (0.0, 1.0))[1][0].tolist() == []


def test_rows_are_ordered_by_time(builder: ModuleType) -> None:
    tables = builder.Results([5.0, 10.0]).stage("a", rate_in=[1, 2]).stage("b").tables()
    assert tables["stages"]["t_s"].to_pylist() == [5.0, 10.0, 5.0, 10.0]
    rows = panel_of(tables, "stages")
    assert rows["t_s"].tolist() == [5.0, 5.0, 10.0, 10.0]
    assert rows["stage"].tolist() == ["a", "b", "a", "b"]
    assert rows["rate_in"].tolist() == [1, 0, 2, 0]


def test_a_panel_is_made_once(builder: ModuleType) -> None:
    tables = panels_of(builder.Results([5.0]).stage("a").tables())
    assert panels_of(tables) is tables
    assert panel_of(tables, "stages") is panel_of(tables, "stages")
    assert dict(tables)["stages"].num_rows == len(tables["stages"]) == 1
    assert "time" not in tables


def test_a_missing_column_of_a_panel_is_named(builder: ModuleType) -> None:
    tables = builder.Results([1.0]).stage("a").tables()
    tables["stages"] = tables["stages"].drop_columns(["rate_in"])
    with pytest.raises(ValueError, match="result table stages lacks rate_in"):
        panel_of(tables, "stages")
