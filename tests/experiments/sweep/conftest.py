"""Sweeps without the virtual clock: what the tests of this folder share."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.sweep.plan import Plan, make_plan


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module beside this file; processes that are started find it too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("sweep_fakes")


@pytest.fixture
def chain(fakes: ModuleType) -> dict[str, Any]:
    """Return a chain of three stages, the last one the slowest, as a file has it."""
    return copy.deepcopy(fakes.CHAIN)


@pytest.fixture
def plan(chain: dict[str, Any]) -> Callable[..., Plan]:
    """Return a function that plans a sweep of the chain."""

    def make(vary: Any, **more: Any) -> Plan:
        pairs = list(vary.items()) if isinstance(vary, dict) else vary
        return make_plan(varied_base(chain), pairs, **more)

    return make
