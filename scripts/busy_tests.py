"""Which tests take the processor: a plugin of pytest's that lists them.

    PYTHONPATH=scripts python -m pytest -p busy_tests -m "not spark"

Times are of the processor, that of ended child processes too: a machine that is busy with something
else changes them little. A set-up that several tests share counts for the first of them. In one
process only: with ``-n`` each worker would have a list of its own.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SHOWN = 40
"""Lines of each list."""

FILES: Counter[str] = Counter()
"""Processor time by file, s."""
PHASES: Counter[str] = Counter()
"""Processor time by phase of a test, s; and that of collecting them."""


def now_s() -> float:
    """Return the processor time of this process and of its children that have ended, s."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Measure the collection of all tests."""
    began = now_s()
    try:
        return (yield)
    finally:
        PHASES["collection"] = now_s() - began


def measured(item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
    """Measure a phase of a test."""
    began = now_s()
    try:
        return (yield)
    finally:
        took_s = now_s() - began
        FILES[item.nodeid.partition("::")[0]] += took_s
        PHASES[f"{phase:8} {item.nodeid}"] += took_s


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a set-up."""
    return (yield from measured(item, "setup"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a test."""
    return (yield from measured(item, "call"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure what is done behind a test."""
    return (yield from measured(item, "teardown"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what took most."""
    for title, found in (("files", FILES), ("tests", PHASES)):
        terminalreporter.section(f"processor time of {title}, s: {found.total():.1f} in all")
        for name, took_s in found.most_common(SHOWN):
            terminalreporter.line(f"{took_s:8.2f} {name}")
