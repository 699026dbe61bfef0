"""The folder of a run: made, resumed, replaced or refused (design section 4); places in it.

The places of the links are a contract.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flowcontrol.folders import Kind, OwnedFolder, open_owned
from flowcontrol.layout.graph import JobEdge
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import differences
from flowcontrol.version import OF_LIVE_RUN, rules_version

QUERIES: Final = "queries"
"""Folder of what Spark keeps of the stages' queries."""

SHOWN: Final = 3
"""Keys by which a refusal tells two scenarios apart."""

KIND: Final = Kind("run", "run.json", "run_id", frozenset({"scenario"}))


class RunFolder(OwnedFolder):
    """A folder that this process may write a run to."""

    @property
    def paths(self) -> RunPaths:
        """Places in the folder."""
        return RunPaths(self.root)

    @property
    def run_id(self) -> str:
        """Identity of the run; the same when it is resumed."""
        return self.identity


def open_folder(
    root: Path | str, scenario: Scenario, *, named: bool, overwrite: bool, clock: Clock = "live"
) -> RunFolder:
    """Make a run's folder ready.

    An unfinished run is resumed under the rules that it was begun with only: each round starts from
    the state that the one before left, which other rules would read differently.

    - ``named``: whether the user named the folder: then a finished run in it is not replaced.
    - ``overwrite``: replace any run in it; an unfinished one of this scenario is still resumed.

    Raises ScenarioError if the folder cannot be made, another process runs in it, or it holds
    something that must not be replaced. Nothing was written.
    """
    described = {
        "run_id": uuid.uuid4().hex[:12],
        "scenario": scenario.canonical(),
        "rules": rules_version(*OF_LIVE_RUN) if clock == "live" else None,  # others begin anew
        "clock": clock,
    }
    owned = open_owned(
        root,
        KIND,
        described,
        is_continued=lambda found: (
            _is_same(found, described)
            and all(found.get(key) == described[key] for key in ("rules", "clock"))
        ),
        why_kept=lambda found: None if overwrite else _why_kept(root, found, described, named),
    )
    folder = RunFolder(**vars(owned))
    folder.paths.stop_file.unlink(missing_ok=True)
    return folder


def _is_same(found: Mapping[str, Any], described: Mapping[str, Any]) -> bool:
    """Whether a folder holds an unfinished run of a scenario."""
    return not found["finished"] and found["scenario"] == described["scenario"]


def _why_kept(
    root: Path | str, found: Mapping[str, Any], described: Mapping[str, Any], named: bool
) -> str | None:
    """Say why a run must not be replaced unless the user says so; None if it may be."""
    if _is_same(found, described):
        if found.get("clock") == "virtual":
            return None
        if described["clock"] == "virtual":
            return (
                f"{root} holds an unfinished run of this scenario on the live clock: name another "
                "folder, or replace it with --overwrite"
            )
        return (
            f"{root} holds an unfinished run of this scenario that was begun under other rules "
            f"(version {found.get('rules', 'unknown')}; these are {described['rules']}) and cannot "
            "go on: name another folder, or begin anew with --overwrite"
        )
    if not found["finished"]:
        return (
            f"{root} holds an unfinished run of another scenario{_unlike(found, described)}; "
            "name another folder, or replace it with --overwrite"
        )
    if named:
        return f"{root} holds a finished run; name another folder or add --overwrite"
    return None


def _unlike(found: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    """Say what tells the scenario in a folder from the one to run: its name, or some keys."""
    there, here = found["scenario"], described["scenario"]
    if not isinstance(there, dict) or there.get("name") != here["name"]:
        return f", {there.get('name', '') if isinstance(there, dict) else ''!r}"
    unlike = list(differences(there, here))
    more = len(unlike) - SHOWN
    return f": {', '.join(unlike[:SHOWN])}{f', and {more} more' if more > 0 else ''}"


class RunPaths:
    """Places below the folder of one run."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def ledger(self, link: JobEdge) -> Path:
        """Return the ledger of a link (contract)."""
        return self.root / "links" / link.folder / "ledger"

    def exchange(self, link: JobEdge) -> Path:
        """Return the exchange log of a link."""
        return self.root / "links" / link.folder / "exchange"

    def checkpoint(self, stage: str) -> Path:
        """Return Spark's checkpoint of a stage's query; ``checkpoints`` is a table of results."""
        return self.root / QUERIES / stage

    def replay(self, stage: str) -> Path:
        """Return the rows that a source replays, split by subtask."""
        return self.root / "replay" / stage

    @property
    def state(self) -> Path:
        """The table of what tasks held at the checkpoints; ``checkpoints`` is one of results."""
        return self.root / "state"

    def output(self, folder: str) -> Path:
        """Return the table that a sink writes."""
        return self.root / folder

    @property
    def stop_file(self) -> Path:
        """While it exists, no stage starts another round."""
        return self.root / "stop"

    def ended_file(self, stage: str) -> Path:
        """While it exists, a stage has no further round, or is asked to stop: Spark before 4.2."""
        return self.root / QUERIES / f"{stage}.ended"

    @property
    def failure_file(self) -> Path:
        """Spark's full message of the failure that ended the run."""
        return self.root / "failure.txt"
