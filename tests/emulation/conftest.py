"""The small jobs that the tests of this folder run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return the module ``small_jobs.py`` beside this file."""
    path = Path(__file__).with_name("small_jobs.py")
    spec = importlib.util.spec_from_file_location("small_jobs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
