"""What the comparison says of head-of-line.yaml, shared-producer.yaml and siblings.yaml, from runs.

The rates are held by ``tests/virtual/test_tcp.py`` and ``tests/virtual/test_streaming_shuffle.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.compare.run import run_one
from flowcontrol.experiments.compare.wording import starving_sentences

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.fixture
def said():
    """A function that returns what is said of some systems, and who starved under which."""

    def find(name, *systems):
        base = varied_base(CONF / f"{name}.yaml")
        outcomes = [run_one(base, system, "virtual") for system in systems]
        assert {outcome.state for outcome in outcomes} == {"ran"}
        starved = {o.system: [(one.name, one.cause) for one in o.starved] for o in outcomes}
        return starving_sentences(outcomes), starved

    return find


def test_head_of_line_is_the_connections_fault(said):
    (text,), starved = said("head-of-line", "flink", "flink-1.4")
    assert starved == {"flink": [], "flink-1.4": [("B [0]", "road")]}
    assert text.startswith("B [0] starved: of what it could take up by itself, it got ")
    assert "The job can carry 100 % of it" in text
    assert (
        "the records came through the connection from task manager 0 to 1 behind those of B [1], "
        "which was slow" in text
    )
    assert text.endswith("Under flink it did not starve.")


def test_a_shared_producer_is_nobodys_fault_that_credits_could_mend(said):
    (text,), starved = said("shared-producer", "flink", "flink-1.4")
    assert starved == {name: [("B [0]", "producer")] for name in ("flink", "flink-1.4")}
    assert "waits for B [1] with the next record in its hand" in text
    assert "Credits keep channels apart on the network, not in the one task that feeds them" in text
    assert "did not starve" not in text


def test_a_quota_for_each_writer_keeps_these_apart(said):
    _, starved = said("head-of-line", "spark-real-time", "flink-1.4")
    assert starved == {"spark-real-time": [], "flink-1.4": [("B [0]", "road")]}


def test_siblings_of_one_writer_starve_under_real_time_mode(said):
    (text,), starved = said("siblings", "spark-real-time", "unbounded")
    both = [("B [1]", "producer"), ("B [2]", "producer")]
    assert starved == {"spark-real-time": both, "unbounded": []}
    assert "waits for B [0] with the next record in its hand" in text
