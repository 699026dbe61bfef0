"""The small jobs that the tests of this folder run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(name: str) -> ModuleType:
    """Import a module that stands beside this file."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return ``small_jobs.py``: jobs made by hand."""
    return load("small_jobs")


@pytest.fixture(scope="session")
def random_jobs() -> ModuleType:
    """Return ``random_jobs.py``: what draws jobs."""
    return load("random_jobs")
