"""What the tests of docs/link.md share: its text, and the texts of the code."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from modules import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def page() -> str:
    """Return the page."""
    return (ROOT / "docs/link.md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def texts() -> ModuleType:
    """Return ``messages.py``: the texts that a link refuses or warns with."""
    return load("tests/link_docs/messages.py")
