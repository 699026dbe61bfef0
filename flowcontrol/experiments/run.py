"""The result of a run, on either clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa


class Run(Protocol):
    """A finished run: ``flowcontrol.virtual.VirtualRun``, or ``flowcontrol.run.RunResult``."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The result tables: ``stages``, ``channels`` and ``latency``."""

    @property
    def rounds(self) -> int:
        """Rounds that were run."""

    @property
    def round_us(self) -> int:
        """Emulated time of a round, microseconds."""

    @property
    def wall_s(self) -> float:
        """Real time of the run, s."""


Simulate = Callable[[Scenario], Run]


def virtual_clock() -> Simulate:
    """Return the function that runs a scenario on the virtual clock; loads numba."""
    from flowcontrol.virtual import simulate

    return simulate
