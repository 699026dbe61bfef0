"""Follows a ledger's Delta log from outside, to know in which order its commits came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class LedgerWatch:
    """The commits of a link's ledger, in order; the log is trimmed, so it looks all the time.

    Parameters
    ----------
    link : Path
        Folder of the link.

    Attributes
    ----------
    commits : list of (str, int)
        Application id and number of every commit that adds rows.
    epochs : dict of str to int
        Newest epoch by application id.
    states : dict of str to dict
        What each member's newest commit tells the others.
    """

    def __init__(self, link: Path) -> None:
        self.log = link / "ledger" / "_delta_log"
        self.commits: list[tuple[str, int]] = []
        self.epochs: dict[str, int] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self._next = 0

    def look(self) -> None:
        """Take notice of what is new."""
        while True:
            path = self.log / f"{self._next:020d}.json"
            try:
                lines = path.read_text().splitlines()
            except FileNotFoundError:
                later = [path for path in self.log.glob("*.json") if self._is_later(path)]
                if not later:
                    return
                # It and the later one may have come since it was looked for.
                assert path.exists(), f"{self.log}: {self._next} is gone, there is {min(later)}"
                continue
            self._next += 1
            for action in map(json.loads, lines):
                self._note(action)

    def _is_later(self, path: Path) -> bool:
        return path.stem.isdecimal() and int(path.stem) > self._next

    def _note(self, action: dict[str, Any]) -> None:
        if "txn" in action:
            app, version = action["txn"]["appId"], action["txn"]["version"]
            if app.endswith("/epoch"):
                self.epochs[app.removesuffix("/epoch")] = version
            elif "/" in app:
                self.commits.append((app, version))
        elif ".L0." in action.get("add", {}).get("path", ""):
            stats = json.loads(action["add"]["stats"])
            self.states[stats["member"]] = stats["state"]

    def count(self, member: str) -> int:
        """Return how many commits with rows a member has made."""
        return sum(app.startswith(member) for app, _ in self.commits)

    def last(self, member: str) -> int:
        """Return the number of a member's newest commit; 0 if there is none."""
        return max((number for app, number in self.commits if app.startswith(member)), default=0)
