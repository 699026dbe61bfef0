"""What the tests of the link share: queries without Spark, and a verifier that knows the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modules import load


@pytest.fixture(scope="session")
def dry() -> ModuleType:
    """Return ``dry.py``: queries of a link, step by step and without Spark."""
    return load("tests/link/dry.py")


@pytest.fixture(scope="session")
def verify() -> ModuleType:
    """Return ``verify.py``: what must hold, from the input, the sinks and the ledger alone."""
    return load("tests/link/verify.py")


@pytest.fixture(scope="session")
def orders() -> ModuleType:
    """Return ``orders.py``: every order of the steps of a few processes."""
    return load("tests/link/orders.py")


@pytest.fixture
def make(tmp_path: Path, dry: ModuleType) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a dry pipeline in a folder of its own."""
    made: list[Any] = []

    def begin(**settings: Any) -> Any:
        made.append(dry.Pipeline(tmp_path / f"link{len(made)}", **settings))
        return made[-1]

    yield begin
    for pipeline in reversed(made):  # each puts back what it found
        pipeline.close()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that ends the Python processes of a sink: what they held is gone."""
    from flowcontrol.link import writer

    def end() -> None:
        for sender in writer._senders.values():
            sender.ledger.close()
        writer._senders.clear()
        writer._targets.clear()

    monkeypatch.setenv("SPARK_LOCAL_DIRS", "")
    monkeypatch.setattr(writer, "_senders", {})
    monkeypatch.setattr(writer, "_targets", {})
    return end
