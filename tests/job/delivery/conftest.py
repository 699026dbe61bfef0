"""What the tests of deliveries share."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def random_checkpoints() -> ModuleType:
    """Return ``random_checkpoints.py``: what draws how jobs checkpoint."""
    return load("tests/job/checkpoints/random_checkpoints.py")


@pytest.fixture(scope="session")
def random_failures() -> ModuleType:
    """Return ``random_failures.py``: what draws failures."""
    return load("tests/job/failures/random_failures.py")


@pytest.fixture(scope="session")
def random_deliveries() -> ModuleType:
    """Return ``random_deliveries.py``: what draws jobs with guarantees."""
    return load("tests/job/delivery/random_deliveries.py")


@pytest.fixture(scope="session")
def follower() -> ModuleType:
    """Return ``follower.py``: runs whose records are followed."""
    return load("tests/job/delivery/follower.py")
