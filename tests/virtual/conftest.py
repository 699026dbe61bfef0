"""What the tests of the virtual clock share: helpers, and what draws random jobs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


def load(path: Path) -> ModuleType:
    """Import a helper of the tests by its path."""
    spec = importlib.util.spec_from_file_location(f"virtual_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def clocks() -> ModuleType:
    """Return ``clocks.py``: runs of the kernel as ledger rows, compared with reference runs."""
    return load(HERE / "clocks.py")


@pytest.fixture(scope="session")
def witness() -> ModuleType:
    """Return ``witness.py``: what happened in a run."""
    return load(HERE / "witness.py")


@pytest.fixture(scope="session")
def accounts() -> ModuleType:
    """Return ``accounts.py``: what must balance after any round."""
    return load(HERE / "accounts.py")


@pytest.fixture(scope="session")
def wire_accounts() -> ModuleType:
    """Return ``wire_accounts.py``: what must hold of connections without credits."""
    return load(HERE / "wire_accounts.py")


@pytest.fixture(scope="session")
def references() -> ModuleType:
    """Return ``references.py``: result tables of reference runs."""
    return load(HERE / "references.py")


@pytest.fixture(scope="session")
def random_jobs() -> ModuleType:
    """Return ``random_jobs.py`` of the emulation's tests: what draws jobs."""
    return load(HERE.parent / "job" / "random_jobs.py")


@pytest.fixture(scope="session")
def awkward_jobs() -> ModuleType:
    """Return ``awkward_jobs.py``: what draws jobs of numbers with many digits."""
    return load(HERE / "awkward_jobs.py")


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return ``small_jobs.py`` of the emulation's tests: jobs made by hand."""
    return load(HERE.parent / "job" / "small_jobs.py")
