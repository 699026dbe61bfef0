"""The folder of a sweep: its identity, its table, and the commits of the workers' files to it.

Only the driver commits, and only one process drives a folder, so a variant enters the table once:
rows that a repeated task writes again are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import RunError
from flowcontrol.experiments.folder import Paths, open_experiment
from flowcontrol.experiments.sweep.columns import results_table
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.variants import Variant
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import NewFile
from flowcontrol.version import OF_FIGURES, rules_version

if TYPE_CHECKING:
    import pyarrow as pa

KIND: Final = Kind("sweep", "sweep.json", "sweep", frozenset({"version", "variants", "varied"}))


def describe(plan: Plan, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return the identity of a sweep: two are the same if ``sweep`` is equal.

    It covers the variants in any order, the columns, and the version of the rules, since one table
    must not hold the figures of two models.
    """
    columns = sorted((varied.key, varied.column) for varied in plan.varied)
    rules = rules_version(*OF_FIGURES)
    text = json.dumps([rules, columns, sorted(variant.id for variant in variants)])
    return {
        "sweep": hashlib.sha256(text.encode()).hexdigest()[:16],
        "version": rules,
        "scenario": str(plan.base.mapping.get("name", "")),
        "varied": {varied.key: varied.column for varied in plan.varied},
        "variants": len(variants),
        "replications": plan.replications,
    }


def open_folder(
    root: Path | str, plan: Plan, variants: Sequence[Variant], *, named: bool, overwrite: bool
) -> OwnedFolder:
    """Make the folder of a sweep ready, as :func:`open_experiment` does."""
    return open_experiment(
        root,
        KIND,
        describe(plan, variants),
        named=named,
        overwrite=overwrite,
        keeps_finished=True,
        content=_content,
    )


def _content(found: Mapping[str, Any]) -> str:
    what = f"{found['variants']:,} variants over {', '.join(found['varied'])}"
    return f"of another kind ({what}, by version {found['version']})"


_DESCRIPTION = "A row per variant and stage; columns in flowcontrol/experiments/sweep/columns.py"


def read_results(
    paths: Paths,
    columns: list[str] | None = None,
    filters: list[tuple[str, str, Any]] | None = None,
) -> pa.Table:
    """Return the table of a sweep, or some of its columns and rows.

    Raises RunError if a file of it is damaged or gone.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    try:
        table = DeltaTable(str(paths.results))
        return table.to_pyarrow_table(columns=columns, filters=filters)
    except (ArrowException, DeltaError, OSError) as error:
        text = f"{paths.results} cannot be read ({' '.join(str(error).split())}): put its files "
        raise RunError(f"{text}back from a copy, or begin anew with --overwrite") from error


@dataclass
class Collector:
    """Commits the workers' files.

    ``paths``: the folder; its table is created if need be, and uncommitted files are removed.
    """

    paths: Paths
    plan: Plan
    sweep_id: str
    run_id: str
    done: set[str] = field(init=False)  # Variants in the table
    # Variants that could not be run since this start: class and text of what was raised.
    failed: dict[str, str] = field(init=False, default_factory=dict)
    # False once a worker ran a variant without a compiler.
    is_compiled: bool = field(init=False, default=True)
    _writer: Writer = field(init=False)
    _seen: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Read the table, and remove what an earlier start left."""
        columns = [varied.result_column() for varied in self.plan.varied]
        schema = results_table(columns).arrow_schema()
        create_table(self.paths.results, schema, _DESCRIPTION, for_users=True)
        self.paths.notes.mkdir(exist_ok=True)
        self.look_again()
        self._remove_leftovers()

    def look_again(self) -> None:
        """Read the table again.

        An interrupted :meth:`collect` may have committed or not, so all notes are read again, and
        variants in the table are left out.
        """
        self._writer = Writer(self.paths.results, self.sweep_id, for_users=True)
        self.done = self._committed()
        self.failed, self._seen = {}, set()

    def collect(self) -> int:
        """Commit the files written since the last call; return the number of new variants."""
        files: list[NewFile] = []
        added: set[str] = set()
        for note in self._new_notes():
            self.failed |= note["failed"]
            self.is_compiled &= note["is_compiled"]
            wanted = set(note["variants"]) - self.done - added
            if wanted:
                files.append(self._file(note, wanted))
            added |= wanted
        if files:
            self._writer.commit(self._writer.last_batch() + 1, files)
            self.done |= added
        return len(added)

    def clear(self) -> None:
        """Remove the notes: everything is in the table."""
        for path in self.paths.notes.iterdir():
            path.unlink()
        self.paths.notes.rmdir()

    def _committed(self) -> set[str]:
        return set(read_results(self.paths, columns=["variant"])["variant"].to_pylist())

    def _remove_leftovers(self) -> None:
        """Remove notes and files of earlier starts; what is in the table stays."""
        from deltalake import DeltaTable

        named = {uri.rpartition("/")[2] for uri in DeltaTable(str(self.paths.results)).file_uris()}
        for file in self.paths.results.glob("*.parquet"):
            if file.name not in named:
                file.unlink()
        for path in self.paths.notes.iterdir():
            path.unlink()

    def _new_notes(self) -> list[dict[str, Any]]:
        """Return the unread notes of this start's workers."""
        found = sorted(self.paths.notes.glob(f"{self.run_id}-*.json"))
        new = [path for path in found if path.name not in self._seen]
        self._seen |= {path.name for path in new}
        return [json.loads(path.read_text()) for path in new]

    def _file(self, note: dict[str, Any], wanted: Collection[str]) -> NewFile:
        """Return the file of a note, rewritten if some of its variants are in the table."""
        name, nbytes, rows = note["file"], note["nbytes"], note["rows"]
        if len(wanted) < len(note["variants"]):
            name, nbytes, rows = _filtered(self.paths, name, wanted)
        return NewFile(name, nbytes, rows)


def _filtered(paths: Paths, name: str, wanted: Collection[str]) -> tuple[str, int, int]:
    """Write a file with the rows of some variants of another; return its name, bytes and rows."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(paths.results / name)
    kept = table.filter(pc.field("variant").isin(list(wanted)))
    file = paths.results / f"some-{name}"
    pq.write_table(kept, file)
    return file.name, file.stat().st_size, kept.num_rows
