"""Where things stand in a run's folder. The links' places are a contract."""

from __future__ import annotations

from pathlib import Path

from flowcontrol.job import JobEdge

__all__ = ["RunPaths"]


class RunPaths:
    """Places below the folder of one run.

    Parameters
    ----------
    root : Path or str
        The folder, absolute.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def ledger(self, link: JobEdge) -> Path:
        """Return the ledger of a link (contract)."""
        return self.root / "links" / link.folder / "ledger"

    def exchange(self, link: JobEdge) -> Path:
        """Return the exchange log of a link."""
        return self.root / "links" / link.folder / "exchange"

    def checkpoint(self, stage: str) -> Path:
        """Return the checkpoint of a stage's query."""
        return self.root / "checkpoints" / stage

    def replay(self, stage: str) -> Path:
        """Return the rows that a source replays, split by subtask."""
        return self.root / "replay" / stage

    def output(self, folder: str) -> Path:
        """Return the table that a sink writes."""
        return self.root / folder

    @property
    def run_file(self) -> Path:
        """What the run is: its scenario, its identity, whether it is finished."""
        return self.root / "run.json"

    @property
    def stop_file(self) -> Path:
        """While it stands, no stage starts another round."""
        return self.root / "stop"

    @property
    def failure_file(self) -> Path:
        """All that Spark said of the failure that ended the run."""
        return self.root / "failure.txt"
