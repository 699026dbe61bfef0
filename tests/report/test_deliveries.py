"""What the page and the terminal show of readers: from a run that fails, and from none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import emulate
from flowcontrol.report.advice import advice_sentences
from flowcontrol.topics.delivery import DELIVERY, delivery_section, delivery_sentences

INTERVAL = "execution.checkpointing.interval"


def mapping(**changed: Any) -> dict[str, Any]:
    """Return a scenario that fails once, with an exactly-once sink."""
    sink = {"name": "sink", "service_rate": 500, **changed.pop("sink", {})}
    return {
        "schema": 1,
        "name": "small",
        "duration_s": 6,
        "round_ms": 10,
        "sample_interval_s": 0.5,
        "options": {
            INTERVAL: "1s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "200ms",
        },
        "failures": [{"at_s": 2.6, "stage": "sink", "subtask": 0}],
        "stages": [{"name": "source", "emit_rate": 600, "arrival_rate": 300}, sink],
        "edges": [{"from": "source", "to": "sink"}],
        **changed,
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a run whose sink commits."""
    scenario = mapping(sink={"guarantee": "exactly-once"})
    out = tmp_path_factory.mktemp("runs") / "run"
    return emulate(scenario, clock="virtual", out=out, quiet=True)


def test_lost_rows_are_explained_and_no_advice_on_latency_is_given(tmp_path: Path) -> None:
    sink = {"guarantee": "exactly-once", "transaction_timeout_s": 0.5}
    made = emulate(
        mapping(sink=sink), clock="virtual", out=tmp_path / "run", advice=True, quiet=True
    )
    [text] = DELIVERY.alarms(made.summary)
    assert made.summary["delivery"]["sinks"]["sink"]["visible"] == 0
    assert "as transaction_timeout_s, 0.5 s, is shorter than the 1." in text
    assert text in (tmp_path / "run" / "report.html").read_text()
    assert "advice" not in made.summary


@pytest.mark.parametrize(
    ("goal", "helps", "shown"),
    [("latency", False, 0), ("latency", True, 1), ("throughput", False, 1)],
)
def test_a_job_that_lacks_nothing_gets_no_line_without_advice(
    goal: str, helps: bool, shown: int
) -> None:
    found = {"goal": goal, "proposals": [{"helps": helps}], "sentence": "The only change ..."}
    assert len(advice_sentences({"advice": found})) == shown
    assert advice_sentences({}) == []


def test_the_summary_compares_the_guarantees(run: Any) -> None:
    found = json.loads((run.path / "summary.json").read_text())["delivery"]
    own = found["sinks"]["sink"]
    assert (own["twice"], own["lost"]) == (0, 0)
    assert own["staged"] > 0
    assert own["visibility_max_ms"] == pytest.approx(own["expected_max_ms"], rel=0.02)
    assert own["visibility_p50_ms"] == pytest.approx(own["expected_p50_ms"], rel=0.1)
    most, least, exactly = found["guarantees"]
    assert [one["guarantee"] for one in found["guarantees"]] == [
        "at-most-once",
        "at-least-once",
        "exactly-once",
    ]
    assert (most["twice"], least["lost"], exactly["twice"] + exactly["lost"]) == (0, 0, 0)
    assert most["lost"] > 0
    assert least["twice"] > 100
    assert least["visible"] - least["twice"] == exactly["visible"] + exactly["staged"]
    assert len(exactly["samples"]) == 12
    assert (exactly["visible"], exactly["staged"]) == (own["visible"], own["staged"])


def test_the_page_shows_them(run: Any, tmp_path: Path) -> None:
    page = (run.path / "report.html").read_text()
    for text in (
        "What readers see",
        "The three guarantees compared",
        "rows visible less records at the sink",
        "at-most-once",
        "sink (exactly-once): readers see",
    ):
        assert text in page, text


def test_the_usual_sink_is_mentioned_when_a_failure_touched_it() -> None:
    own = {"guarantee": "at-least-once", "twice": 0, "lost": 0, "staged": 0}
    quiet = {"delivery": {"sinks": {"k": own}, "sentences": ["k: a sentence"]}}
    assert delivery_sentences(quiet) == []
    assert delivery_section(quiet) == ""
    assert delivery_sentences({}) == []
    told = {"delivery": {"sinks": {"k": {**own, "twice": 3}}, "sentences": ["k: a sentence"]}}
    assert delivery_sentences(told) == ["k: a sentence"]


def test_a_sink_without_checkpoints_never_shows_a_row(tmp_path: Path) -> None:
    scenario = mapping(sink={"guarantee": "exactly-once"}, options={}, failures=[])
    run = emulate(scenario, clock="virtual", out=tmp_path / "run", quiet=True)
    own = run.summary["delivery"]["sinks"]["sink"]
    assert (own["visible"], own["visibility_max_ms"]) == (0, None)
    assert own["staged"] == own["written"] > 0
    assert "never" in (run.path / "report.html").read_text()
    assert "guarantees" not in run.summary["delivery"]


@pytest.mark.parametrize(
    ("win", "raw", "said"),
    [
        ("exactly-once", "exactly-once", ["raw (exactly-once): readers", "out (exactly-once): wh"]),
        ("exactly-once", "at-least-once", ["out (exactly-once): what"]),
        ("at-least-once", "exactly-once", ["raw (exactly-once): readers"]),
        ("at-least-once", "at-least-once", []),
    ],
)
def test_a_sink_behind_a_window_is_not_said_to_show_nothing(
    tmp_path: Path, win: str, raw: str, said: list[str]
) -> None:
    """In a job that checkpoints the table has no rows of it, beside another sink."""
    given = mapping(failures=[], options={INTERVAL: "1s"})
    given["stages"] = [
        {**given["stages"][0], "event_time": {}, "watermark": {"delay_s": 0.1}},
        {"name": "win", "service_rate": 5000, "window": {"kind": "tumbling", "size_s": 1}},
        {"name": "out", "service_rate": 5000, "guarantee": win},
        {"name": "raw", "service_rate": 5000, "guarantee": raw},
    ]
    given["edges"] = [
        {"from": "source", "to": "win"}, {"from": "win", "to": "out"},
        {"from": "source", "to": "raw"},
    ]  # fmt: skip
    made = emulate(given, clock="virtual", out=tmp_path / "run", advice=False, quiet=True)
    assert list(made.summary["delivery"]["sinks"]) == ["raw"]
    sentences = delivery_sentences(made.summary)
    assert len(sentences) == len(said)
    assert all(text.startswith(begin) for text, begin in zip(sentences, said, strict=True))
    section = delivery_section(made.summary)
    assert bool(section) == bool(said)
    for text in sentences:
        if text.startswith("out"):
            assert text == (
                "out (exactly-once): what its readers see is not accounted for: in a job that may "
                "restart, nobody knows which results win would put out again."
            )
            assert text in section
