"""What the tests of checkpoints share."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def cuts() -> ModuleType:
    """Return ``cuts.py``: runs with checkpoints, and the cuts that these make."""
    return load("tests/job/checkpoints/cuts.py")
