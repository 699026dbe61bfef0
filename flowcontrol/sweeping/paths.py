"""Where things stand in the folder of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SweepPaths:
    """The folder of a sweep.

    Attributes
    ----------
    root : Path
        Absolute: workers have other current folders.
    """

    root: Path

    @property
    def results(self) -> Path:
        """The Delta table."""
        return self.root / "results"

    @property
    def notes(self) -> Path:
        """What workers tell the driver; gone when the sweep is finished."""
        return self.root / ".notes"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def stop_file(self, run_id: str) -> Path:
        """There when the workers of a run are to stop."""
        return self.notes / f"{run_id}.stop"
