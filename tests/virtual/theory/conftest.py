"""The helpers of this folder as fixtures, and the clock that they are tried on."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def forms() -> ModuleType:
    """Closed forms."""
    return load("tests/virtual/theory/closed_forms.py")


@pytest.fixture(scope="session")
def queues() -> ModuleType:
    """Queues as scenarios, and their means from a run."""
    return load("tests/virtual/theory/queues.py")
