"""The small jobs whose ledgers the tests of this folder audit."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return the module ``small_jobs.py`` of the tests of emulation."""
    return load("tests/job/small_jobs.py")
