"""The worker of a comparison: runs a system and writes its outcome to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flowcontrol.experiments.base import Base
from flowcontrol.experiments.compare.outcome import Outcome
from flowcontrol.experiments.compare.run import run_one
from flowcontrol.experiments.executor import warm_up
from flowcontrol.experiments.run import Simulate
from flowcontrol.files import write_atomically


@dataclass(frozen=True)
class Work:
    """The work of a comparison, for every worker.

    Attributes
    ----------
    base : Base
        The scenario.
    notes : Path
        Folder of the outcomes; workers and driver see the same one.
    chunks : tuple of str
        The systems; each is a chunk.
    runner : callable, optional
        Runs a scenario; by default the virtual clock.
    parts : int, default 0
        Parts of the kernel that all systems together need.
    """

    base: Base
    notes: Path
    chunks: tuple[str, ...]
    runner: Simulate | None = None
    parts: int = 0

    def run(self, number: int) -> int:
        """Run a system; return 1, or 0 if the comparison is to be stopped."""
        if stop_file(self.notes).exists():
            return 0
        if self.runner is None:
            warm_up(self.parts)
        write_outcome(self.notes, run_one(self.base, self.chunks[number], "virtual", self.runner))
        return 1


def stop_file(notes: Path) -> Path:
    """Created to stop the start of further systems."""
    return notes / "stop"


def write_outcome(notes: Path, outcome: Outcome) -> None:
    """Write the outcome of a system for the driver."""
    write_atomically(notes / f"{outcome.system}.json", outcome.to_json())


def read_outcomes(notes: Path) -> dict[str, Outcome]:
    """Return the outcomes that workers have written, by system."""
    found = (Outcome.from_json(path.read_text()) for path in sorted(notes.glob("[!.]*.json")))
    return {outcome.system: outcome for outcome in found}
