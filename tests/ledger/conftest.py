"""The small jobs whose ledgers the tests of this folder audit."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return the module ``small_jobs.py`` of the tests of emulation."""
    path = Path(__file__).resolve().parents[1] / "job" / "small_jobs.py"
    spec = importlib.util.spec_from_file_location("small_jobs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
