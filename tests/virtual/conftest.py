"""What the tests of the virtual clock share: helpers, and what draws random jobs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from flowcontrol.kernel.loop import prepare
from flowcontrol.memory.parts import EVERYTHING
from modules import load

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def clocks() -> ModuleType:
    """Return ``clocks.py``: runs of the kernel as rows, compared with runs stage by stage."""
    return load("tests/virtual/clocks.py")


@pytest.fixture(scope="session")
def accounts() -> ModuleType:
    """Return ``accounts.py``: what must balance after any round."""
    return load("tests/virtual/accounts.py")


@pytest.fixture(scope="session")
def wire_accounts() -> ModuleType:
    """Return ``wire_accounts.py``: what must hold of connections without credits."""
    return load("tests/virtual/wire_accounts.py")


@pytest.fixture(scope="session")
def references() -> ModuleType:
    """Return ``references.py``: result tables of runs stage by stage."""
    return load("tests/virtual/references.py")


@pytest.fixture(scope="session")
def random_jobs() -> ModuleType:
    """Return ``random_jobs.py`` of the emulation's tests: what draws jobs."""
    return load("tests/job/random_jobs.py")


@pytest.fixture(scope="session")
def random_systems() -> ModuleType:
    """Return ``random_systems.py`` of the emulation's tests: what draws transports of records."""
    return load("tests/job/random_systems.py")


@pytest.fixture(scope="session")
def random_event_time() -> ModuleType:
    """Return ``random_event_time.py`` of the emulation's tests: what draws event times."""
    return load("tests/job/random_event_time.py")


@pytest.fixture(scope="session")
def late() -> ModuleType:
    """Return ``late_records.py`` of the emulation's tests: what counts late records."""
    return load("tests/job/late_records.py")


@pytest.fixture(scope="session")
def small_checkpoints() -> ModuleType:
    """Return ``small.py`` of the emulation's tests: small jobs with checkpoints."""
    return load("tests/job/checkpoints/small.py")


@pytest.fixture(scope="session")
def awkward_jobs() -> ModuleType:
    """Return ``awkward_jobs.py``: what draws jobs of numbers with many digits."""
    return load("tests/virtual/awkward_jobs.py")


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """Return ``small_jobs.py`` of the emulation's tests: jobs made by hand."""
    return load("tests/job/small_jobs.py")


@pytest.fixture(scope="session")
def whole_kernel() -> None:
    """Compile one kernel with all parts: less work than one for each transport."""
    prepare(EVERYTHING)
