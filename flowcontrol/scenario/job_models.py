"""Several jobs in one scenario: what a file says of each, and what is kept of it."""

from fractions import Fraction
from typing import Any

from pydantic import Field

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.mapping import Mapping
from flowcontrol.scenario.schedule import MICROSECONDS


class _Job(Mapping):
    quiet = frozenset({"stop_at_s"})

    name: f.Name = Field(description="its name, unlike every other job's")
    start_at_s: f.Moment = Field(
        default=Fraction(0), description="when it is submitted, s; default 0"
    )
    stop_at_s: f.Moment | None = f.or_none("when it is cancelled, s; default: it runs to the end")


class JobPart(_Job):
    """One of several jobs of a file; its stages and edges are read one by one."""

    stages: tuple[Any, ...] = Field(min_length=1, description="the operators of the job")
    edges: tuple[Any, ...] = Field(min_length=1, description="who sends to whom")


class JobSpan(_Job):
    """One of several jobs: which stages are its own, and when it runs."""

    name: str
    """Empty: the only job of a scenario."""
    stages: tuple[str, ...]
    """Names of its stages."""

    @property
    def start_us(self) -> int:
        """When it is submitted, microseconds."""
        return int(self.start_at_s * MICROSECONDS)

    @property
    def stop_us(self) -> int | None:
        """When it is cancelled, microseconds; None: it runs to the end."""
        return None if self.stop_at_s is None else int(self.stop_at_s * MICROSECONDS)
