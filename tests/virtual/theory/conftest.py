"""The helpers of this folder as fixtures, and the clock that they are tried on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(name: str) -> ModuleType:
    """Return a module beside this file."""
    spec = importlib.util.spec_from_file_location(
        f"theory_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def forms() -> ModuleType:
    """Closed forms."""
    return load("closed_forms")


@pytest.fixture(scope="session")
def queues() -> ModuleType:
    """Queues as scenarios, and their means from a run."""
    return load("queues")
