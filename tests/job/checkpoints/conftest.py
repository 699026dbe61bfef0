"""What the tests of checkpoints share."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def random_checkpoints() -> ModuleType:
    """Return ``random_checkpoints.py``: what draws jobs with checkpoints."""
    return load("tests/job/checkpoints/random_checkpoints.py")


@pytest.fixture(scope="session")
def cuts() -> ModuleType:
    """Return ``cuts.py``: runs with checkpoints, and the cuts that these make."""
    return load("tests/job/checkpoints/cuts.py")


@pytest.fixture(scope="session")
def random_systems() -> ModuleType:
    """Return ``random_systems.py``: what draws transports that count records."""
    return load("tests/job/random_systems.py")
