"""The small jobs that the tests of this folder run."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return ``small_jobs.py``: jobs made by hand."""
    return load("tests/job/small_jobs.py")


@pytest.fixture(scope="session")
def random_jobs() -> ModuleType:
    """Return ``random_jobs.py``: what draws jobs."""
    return load("tests/job/random_jobs.py")


@pytest.fixture(scope="session")
def rows_in_windows() -> ModuleType:
    """Return ``rows_in_windows.py`` of the emulation's tests: jobs of replayed rows in windows."""
    return load("tests/job/rows_in_windows.py")
