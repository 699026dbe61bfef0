"""The folder of a sweep: made, continued, replaced or refused, as that of a run is."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from flowcontrol import __version__
from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.report import write_atomically
from flowcontrol.sweeping.checks import Variant
from flowcontrol.sweeping.paths import SweepPaths
from flowcontrol.sweeping.plan import Plan

__all__ = ["SweepFolder", "open_folder"]

_FIRST_FILES: Final = (".lock", ".sweep.json.")
"""How files begin that a sweep may leave which was killed at its very start."""


@dataclass
class SweepFolder:
    """A folder that this process may write a sweep to.

    Attributes
    ----------
    paths : SweepPaths
        Where things stand.
    is_resumed : bool
        Whether the same sweep was begun, or finished, in it before.
    """

    paths: SweepPaths
    is_resumed: bool
    _described: dict[str, Any]
    _lock: IO[str]

    @property
    def sweep_id(self) -> str:
        """Identity of the sweep; the same when it is continued."""
        return str(self._described["sweep"])

    def mark(self, *, finished: bool) -> None:
        """Note whether every variant is there."""
        text = json.dumps({**self._described, "finished": finished}, indent=1)
        write_atomically(self.paths.sweep_file, text + "\n")

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()


def describe(plan: Plan, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return what a sweep is: two are the same if ``sweep`` is equal.

    The variants decide, in whichever order they were stated, the columns, and the version of the
    program: figures of two models do not belong in one table.
    """
    columns = sorted((varied.key, varied.column) for varied in plan.varied)
    text = json.dumps([__version__, columns, sorted(variant.id for variant in variants)])
    return {
        "sweep": hashlib.sha256(text.encode()).hexdigest()[:16],
        "version": __version__,
        "scenario": str(plan.base.mapping.get("name", "")),
        "varied": {varied.key: varied.column for varied in plan.varied},
        "variants": len(variants),
        "replications": plan.replications,
    }


def open_folder(
    root: Path, plan: Plan, variants: Sequence[Variant], *, named: bool, overwrite: bool
) -> SweepFolder:
    """Make the folder of a sweep ready.

    Parameters
    ----------
    root : Path
        The folder.
    plan : Plan
        What is to be run.
    variants : sequence of Variant
        All of them.
    named : bool
        Whether the user named the folder: then another sweep's results in it are not replaced.
    overwrite : bool
        Replace whatever sweep stands there.

    Returns
    -------
    SweepFolder
        Locked for this process.

    Raises
    ------
    ScenarioError
        If the folder holds something that must not be replaced. Nothing was written.
    RunError
        If another process runs a sweep in it.
    """
    paths = SweepPaths(root.resolve())
    described = describe(plan, variants)
    if root.exists() and not root.is_dir():
        raise _refused(f"{root} is a file: name a folder")
    found = _read(paths)
    if found is None:
        if root.exists() and any(not file.name.startswith(_FIRST_FILES) for file in root.iterdir()):
            raise _refused(f"{root} holds something that is not a sweep: name another folder")
        return _new(paths, described)
    if found["sweep"] == described["sweep"] and not overwrite:
        return SweepFolder(paths, True, described, _take_lock(paths))
    with _take_lock(paths):
        reason = None if overwrite else _why_kept(root, found, named)
        if reason is not None:
            raise _refused(reason)
        _empty(paths, found)
    return _new(paths, described)


def _why_kept(root: Path, found: dict[str, Any], named: bool) -> str | None:
    """Say why a sweep must not be replaced unless the user says so; None if it may be."""
    if found["finished"] and not named:
        return None
    state = "a finished" if found["finished"] else "an unfinished"
    what = f"{found['variants']:,} variants over {', '.join(found['varied'])}"
    return (
        f"{root} holds {state} sweep of another kind ({what}, by version {found['version']}): "
        "name another folder, or replace it with --overwrite"
    )


def _new(paths: SweepPaths, described: dict[str, Any]) -> SweepFolder:
    paths.root.mkdir(parents=True, exist_ok=True)
    folder = SweepFolder(paths, False, described, _take_lock(paths))
    folder.mark(finished=False)
    return folder


def _empty(paths: SweepPaths, found: dict[str, Any]) -> None:
    """Take everything out of the folder, the file that says what it is last."""
    # A kill from here on leaves something that no sweep takes for its own.
    gone = {**found, "sweep": "", "finished": False}
    write_atomically(paths.sweep_file, json.dumps(gone))
    for path in paths.root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path not in {paths.sweep_file, paths.lock_file}:
            path.unlink()
    paths.sweep_file.unlink()


def _read(paths: SweepPaths) -> dict[str, Any] | None:
    try:
        found = json.loads(paths.sweep_file.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    keys = {"sweep", "version", "finished", "variants", "varied"}
    return found if isinstance(found, dict) and keys <= set(found) else None


def _take_lock(paths: SweepPaths) -> IO[str]:
    """Take the folder's lock; the system lets go of it when the process ends, however."""
    handle = paths.lock_file.open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise RunError(f"{paths.root}: another process runs a sweep in this folder") from error
    return handle


def _refused(text: str) -> ScenarioError:
    return ScenarioError([Problem("--out", text)], "command")
