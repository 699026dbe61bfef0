"""The toy job that the tests of this folder run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.systems.throttles import make_controller


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """Return ``toy.py``."""
    path = Path(__file__).with_name("toy.py")
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def run(toy: ModuleType) -> Callable[..., Any]:
    """Return a function that runs the toy job with a throttle for so many seconds."""

    def start(
        throttle: str, seconds: float, arrival: int, service: int, round_ms: int = 10, **values: Any
    ) -> Any:
        round_us = round_ms * 1000
        controller = make_controller(throttle, values, round_us=round_us, spouts_above=toy.ABOVE)
        return toy.Toy(controller, arrival, service, round_us).run(seconds)

    return start
