"""The folder of an experiment: made, continued, replaced or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flowcontrol.folders import Kind, OwnedFolder, open_owned


def open_experiment(
    root: Path | str,
    kind: Kind,
    described: dict[str, Any],
    *,
    named: bool,
    overwrite: bool,
    keeps_finished: bool,
    content: Callable[[Mapping[str, Any]], str],
) -> OwnedFolder:
    """Make the folder of an experiment ready.

    Parameters
    ----------
    root : Path or str
        The folder.
    kind : Kind
        What it holds.
    described : dict
        What is to be run; the same experiment goes on if its identity (``kind.identity``) is equal.
    named : bool
        Whether the user named the folder: then other results in it are not replaced.
    overwrite : bool
        Replace whatever experiment of this kind it holds.
    keeps_finished : bool
        Whether the same experiment, finished, is kept and returned rather than run anew.
    content : callable
        Given what the folder holds, says it in words, for a refusal.

    Returns
    -------
    OwnedFolder
        Locked for this process.

    Raises
    ------
    ScenarioError
        If the folder cannot be made, another process writes to it, or it holds something that
        must not be replaced. Nothing was written.
    """

    def is_continued(found: Mapping[str, Any]) -> bool:
        is_same = found[kind.identity] == described[kind.identity] and not overwrite
        return is_same and (keeps_finished or not found["finished"])

    def why_kept(found: Mapping[str, Any]) -> str | None:
        if overwrite or (found["finished"] and not named):
            return None
        state = "a finished" if found["finished"] else "an unfinished"
        return (
            f"{root} holds {state} {kind.noun} {content(found)}: name another folder, or replace "
            "it with --overwrite"
        )

    return open_owned(root, kind, described, is_continued=is_continued, why_kept=why_kept)
