"""What the tests of failures share."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def random_checkpoints() -> ModuleType:
    """Return ``random_checkpoints.py``: what draws jobs with checkpoints."""
    return load("tests/job/checkpoints/random_checkpoints.py")


@pytest.fixture(scope="session")
def random_failures() -> ModuleType:
    """Return ``random_failures.py``: what draws jobs that fail."""
    return load("tests/job/failures/random_failures.py")


@pytest.fixture(scope="session")
def failing() -> ModuleType:
    """Return ``runs.py``: runs with failures."""
    return load("tests/job/failures/runs.py")
