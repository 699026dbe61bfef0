"""What the tests of the link share: queries without Spark, and a verifier that knows the input."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def load(name: str) -> ModuleType:
    """Import a module that stands beside this file, once."""
    full = f"link_{name}"
    if full in sys.modules:
        return sys.modules[full]
    spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def dry() -> ModuleType:
    """Return ``dry.py``: queries of a link, step by step and without Spark."""
    return load("dry")


@pytest.fixture(scope="session")
def verify() -> ModuleType:
    """Return ``verify.py``: what must hold, from the input, the sinks and the ledger alone."""
    return load("verify")


@pytest.fixture(scope="session")
def orders() -> ModuleType:
    """Return ``orders.py``: every order of the steps of a few processes."""
    return load("orders")


@pytest.fixture
def make(tmp_path: Path, dry: ModuleType) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a dry pipeline in a folder of its own."""
    made: list[Any] = []

    def begin(**settings: Any) -> Any:
        made.append(dry.Pipeline(tmp_path / f"link{len(made)}", **settings))
        return made[-1]

    yield begin
    for pipeline in made:
        pipeline.close()
