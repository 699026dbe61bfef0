"""What the tests of failures share."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def failing() -> ModuleType:
    """Return ``runs.py``: runs with failures."""
    return load("tests/job/failures/runs.py")
