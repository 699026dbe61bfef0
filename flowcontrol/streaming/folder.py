"""The folder of a run: made, resumed, replaced or refused (design section 4)."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flowcontrol.files import LOCK_FILE, folder_refused, take_lock, write_atomically
from flowcontrol.scenario import Scenario
from flowcontrol.streaming.paths import RunPaths

__all__ = ["RunFolder", "open_folder"]


@dataclass
class RunFolder:
    """A folder that this process may write a run to.

    Attributes
    ----------
    paths : RunPaths
        Where things stand.
    run_id : str
        Identity of the run; the same when it is resumed.
    is_resumed : bool
        Whether an unfinished run goes on.
    """

    paths: RunPaths
    run_id: str
    is_resumed: bool
    scenario: Scenario
    _lock: IO[str]

    def mark(self, *, finished: bool) -> None:
        """Note whether the run is finished."""
        _write(self.paths.run_file, self.scenario, self.run_id, finished)

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()


def open_folder(root: Path, scenario: Scenario, *, named: bool, overwrite: bool) -> RunFolder:
    """Make a run's folder ready.

    Parameters
    ----------
    root : Path
        The folder.
    scenario : Scenario
        What is to be run in it.
    named : bool
        Whether the user named the folder: then a finished run in it is not replaced.
    overwrite : bool
        Replace whatever run stands there.

    Returns
    -------
    RunFolder
        Locked for this process.

    Raises
    ------
    ScenarioError
        If the folder holds something that must not be replaced. Nothing was written.
    RunError
        If another process runs in it.
    """
    paths = RunPaths(root.resolve())
    if root.exists() and not root.is_dir():
        raise folder_refused(f"{root} is a file; name a folder")
    found = _read(paths)
    if found is None:
        # What a run leaves that is killed at its very start, before the folder counts as a run's.
        firsts = (LOCK_FILE, f".{paths.run_file.name}.")
        if root.exists() and any(not file.name.startswith(firsts) for file in root.iterdir()):
            raise folder_refused(f"{root} holds something that is not a run; name another folder")
        return _new(paths, scenario)
    lock = take_lock(paths.root, "runs")
    if not found["finished"] and found["scenario"] == scenario.canonical():
        paths.stop_file.unlink(missing_ok=True)
        return RunFolder(paths, found["run_id"], True, scenario, lock)
    reason = None if overwrite else _why_kept(root, found, named)
    lock.close()
    if reason is not None:
        raise folder_refused(reason)
    shutil.rmtree(paths.root)
    return _new(paths, scenario)


def _why_kept(root: Path, found: Mapping[str, Any], named: bool) -> str | None:
    """Say why a run must not be replaced unless the user says so; None if it may be."""
    if not found["finished"]:
        return (
            f"{root} holds an unfinished run of another scenario, {found['scenario']['name']!r}; "
            "name another folder, or replace it with --overwrite"
        )
    if named:
        return f"{root} holds a finished run; name another folder or add --overwrite"
    return None


def _new(paths: RunPaths, scenario: Scenario) -> RunFolder:
    paths.root.mkdir(parents=True, exist_ok=True)
    run_id = uuid.uuid4().hex[:12]
    lock = take_lock(paths.root, "runs")
    _write(paths.run_file, scenario, run_id, finished=False)
    return RunFolder(paths, run_id, False, scenario, lock)


def _read(paths: RunPaths) -> dict[str, Any] | None:
    try:
        found = json.loads(paths.run_file.read_text())
        return found if {"scenario", "run_id", "finished"} <= set(found) else None
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _write(file: Path, scenario: Scenario, run_id: str, finished: bool) -> None:
    text = json.dumps(
        {"run_id": run_id, "finished": finished, "scenario": scenario.canonical()}, indent=1
    )
    write_atomically(file, text)
