"""The folder of an experiment: created, continued, replaced or refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcontrol.folders import Kind, OwnedFolder, open_owned


@dataclass(frozen=True)
class Paths:
    """Paths in the folder of an experiment."""

    root: Path  # Absolute: workers have other current folders

    @property
    def results(self) -> Path:
        """The Delta table with a row per run."""
        return self.root / "results"

    @property
    def notes(self) -> Path:
        """Notes of the workers for the driver; removed when the experiment is finished."""
        return self.root / ".notes"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def stop_file(self, run_id: str) -> Path:
        """Created to stop the workers of a run."""
        return self.notes / f"{run_id}.stop"


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
    """Prepare the folder of an experiment.

    - ``described``: the experiment to run; one of equal identity (``kind.identity``) is continued.
    - ``named``: whether the user named the folder; other results in a named folder are not
      replaced.
    - ``keeps_finished``: whether a finished run of the same experiment is returned rather than
      repeated.

    Raises ScenarioError as :func:`~flowcontrol.folders.open_owned`.
    """

    def is_continued(found: Mapping[str, Any]) -> bool:
        is_same = found[kind.identity] == described[kind.identity] and not overwrite
        return is_same and (keeps_finished or not found["finished"])

    def why_kept(found: Mapping[str, Any]) -> str | None:
        if overwrite or (found["finished"] and not named):
            return None
        state = "a finished" if found["finished"] else "an unfinished"
        unlike = ""
        is_other = found[kind.identity] != described[kind.identity]
        if is_other and content(found) == content(described):
            unlike = " with other values in its scenario, or begun under other rules"
        return (
            f"{root} holds {state} {kind.noun} {content(found)}{unlike}: name another folder, or "
            "replace it with --overwrite"
        )

    return open_owned(root, kind, described, is_continued=is_continued, why_kept=why_kept)
