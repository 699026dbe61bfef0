"""What the tests of causes share."""

from __future__ import annotations

import pytest

from flowcontrol.kernel.loop import prepare
from flowcontrol.memory.parts import EVERYTHING


@pytest.fixture(scope="session")
def whole_kernel() -> None:
    """Compile one kernel with all parts, as the tests of the clock do: these jobs need most."""
    prepare(EVERYTHING)
