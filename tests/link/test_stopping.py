"""Whether a query was stopped, also when Spark's private list cannot be read."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from flowcontrol.link import batches as stopping


@pytest.fixture
def active(monkeypatch):
    """Return the ids in the public list, which a test may change; the private one is gone."""
    found: list[str] = []

    class Builder:
        def getOrCreate(self):
            if found == ["broken"]:
                raise RuntimeError("no session")
            queries = [SimpleNamespace(id=one) for one in found]
            return SimpleNamespace(streams=SimpleNamespace(active=queries))

    def private(*_):
        raise AttributeError("_jsparkSession")

    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr(stopping, "running_query", private)
    monkeypatch.setattr(stopping, "_warned", set())
    monkeypatch.setattr(stopping, "_listed", set())
    return found


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_stop_is_seen_in_the_public_list_and_the_log_says_so_once(active, caplog):
    active.append("q")
    assert not any(stopping.is_stopped(object(), "q") for _ in range(5))
    active.clear()
    assert all(stopping.is_stopped(object(), "q") for _ in range(5))
    (message,) = messages(caplog)
    assert "AttributeError: _jsparkSession" in message


def test_a_query_that_was_never_listed_goes_on_and_the_log_says_so_once(active, caplog):
    active.append("other")
    assert not any(stopping.is_stopped(object(), "q") for _ in range(5))
    assert len(messages(caplog)) == 2
    assert "q is not in the default session's list" in messages(caplog)[1]


def test_a_query_whose_lists_are_all_gone_goes_on(active, caplog):
    active.append("broken")
    assert not any(stopping.is_stopped(object(), "q") for _ in range(5))
    assert "does not see stop()" in messages(caplog)[1]


def test_spark_connect_says_nothing_of_it(active, caplog):
    rows = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert not stopping.is_stopped(rows, "q")
    assert messages(caplog) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, True),
        (SimpleNamespace(isActive=lambda: False), True),
        (SimpleNamespace(isActive=lambda: True), False),
    ],
)
def test_the_private_list_counts_first(monkeypatch, found, expected):
    monkeypatch.setattr(stopping, "running_query", lambda *_: found)
    assert stopping.is_stopped(object(), "q") is expected
