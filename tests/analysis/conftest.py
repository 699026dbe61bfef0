"""The builder of hand-made results, for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def builder() -> ModuleType:
    """Return the module ``builder.py`` beside this file."""
    spec = importlib.util.spec_from_file_location(
        "result_builder", Path(__file__).with_name("builder.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
