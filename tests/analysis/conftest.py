"""The builder of hand-made results, for the tests of this folder."""

from __future__ import annotations

from types import ModuleType

import pytest

from modules import load


@pytest.fixture(scope="session")
def builder() -> ModuleType:
    """Return the module ``builder.py`` beside this file."""
    return load("tests/analysis/builder.py")
