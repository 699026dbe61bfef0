"""A folder for the commands of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modules import load


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the current folder, with links to what the checkout has."""
    tools = load("tests/documents/sandbox.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(tools.WIDTH))
    return tools.Sandbox(tmp_path)
