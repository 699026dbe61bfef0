"""The toy job that the tests of this folder run."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.systems.throttles.controller import make_controller
from modules import load


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """Return ``toy.py``."""
    return load("tests/systems/throttles/toy.py")


@pytest.fixture(scope="session")
def run(toy: ModuleType) -> Callable[..., Any]:
    """Return a function that runs the toy job with a throttle for so many seconds."""

    def start(
        throttle: str, seconds: float, arrival: int, service: int, round_ms: int = 10, **values: Any
    ) -> Any:
        round_us = round_ms * 1000
        controller = make_controller(throttle, values, round_us=round_us, spouts_above=toy.ABOVE)
        has_log = THROTTLE_PARTS[throttle].has_log
        return toy.Toy(controller, arrival, service, round_us, has_log).run(seconds)

    return start
