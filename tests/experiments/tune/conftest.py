"""Searches without the virtual clock: what the tests of this folder share."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.tune.plan import TunePlan, make_tune_plan

pytest.importorskip("optuna", reason="the extra tune is not installed")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module beside this file; processes that are started find it too."""
    here = Path(__file__).parent
    monkeypatch.syspath_prepend(str(here.parent / "sweep"))
    monkeypatch.syspath_prepend(str(here))
    return importlib.import_module("tune_fakes")


@pytest.fixture
def chain(fakes: ModuleType) -> dict[str, Any]:
    """Return a chain of three stages whose figures depend on its buffers, as a file has it."""
    return copy.deepcopy(fakes.CHAIN)


@pytest.fixture
def planned(chain: dict[str, Any], fakes: ModuleType) -> Callable[..., TunePlan]:
    """Return a function that plans a search of the chain."""

    def make(
        minimise: tuple[str, ...] = ("memory",), limits: tuple[str, ...] = (), **more: Any
    ) -> TunePlan:
        vary = more.pop("vary", fakes.VARY)
        aims = [("minimise", name) for name in minimise]
        aims += [("maximise", name) for name in more.pop("maximise", ())]
        return make_tune_plan(varied_base(chain), vary, aims, limits, **more)

    return make
