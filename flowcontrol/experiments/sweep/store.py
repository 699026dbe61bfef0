"""What workers and driver do with the rows of a sweep: files, notes, commits."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from flowcontrol.errors import RunError
from flowcontrol.experiments.base import Paths, open_experiment, short_hash
from flowcontrol.experiments.executor import (
    Executor,
    Simulate,
    Work,
    follow,
    unseen_results,
    virtual_clock,
)
from flowcontrol.experiments.sweep.columns import results_table, variant_rows
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.variants import Variant, into_chunks
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.kernel.compiled import is_compiled
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import NewFile
from flowcontrol.spark.versions import freeze_loaded
from flowcontrol.version import OF_FIGURES, rules_version

# --- What a worker does: run a chunk of variants and leave their rows in files.
#
# A worker may be a Python worker of a Spark executor, a process of this machine, or the driver
# itself. It writes Parquet files into the folder of the table, where they count for nothing until
# the driver has committed them, and beside them a note on each, which the driver finds.


PART_S: Final = 5.0
"""Seconds after which a worker hands over what it has: as much is lost by a kill."""


@dataclass(frozen=True)
class SweepWork(Work):
    """The work of a sweep; a chunk is a sequence of variants."""

    plan: Plan  # Base scenario and varied keys

    def run_chunk(self, number: int, now: Callable[[], float] = time.monotonic) -> int:
        """Run a chunk and write its rows in parts.

        ``now`` (s): a monotonic clock.

        Returns the number of variants run. A failed variant is noted and does not stop the others;
        when the sweep is stopped, the chunk ends after the current variant.
        """
        freeze_loaded()
        part = _Part(self, number)
        done, began = 0, now()
        for variant in self.chunks[number]:
            if self.stop_file.exists():
                break
            part.add(variant)
            done += 1
            if now() - began >= PART_S:
                part.hand_over()
                part, began = _Part(self, number), now()
        part.hand_over()
        return done


def run_variant(plan: Plan, variant: Variant, simulate: Simulate | None) -> list[dict[str, Any]]:
    """Run one variant; return its rows of the table."""
    scenario = plan.scenario(variant.point, variant.seed)
    run = (simulate or virtual_clock())(scenario)
    pairs = zip(plan.varied, variant.point, strict=True)
    given = {
        "variant": variant.id,
        **{varied.column: varied.typed(value) for varied, value in pairs},
        "replication": variant.replication,
        "seed": variant.seed,
    }
    return variant_rows(run, scenario, given)


class _Part:
    """Rows of some variants of a chunk that go into one file."""

    def __init__(self, work: SweepWork, chunk: int) -> None:
        self._work, self._chunk = work, chunk
        self._rows: list[dict[str, Any]] = []
        self._done: list[str] = []
        self._failed: dict[str, str] = {}

    def add(self, variant: Variant) -> None:
        """Run a variant and keep its rows or its error."""
        try:
            self._rows += run_variant(self._work.plan, variant, self._work.simulate)
            self._done.append(variant.id)
        except Exception as error:
            self._failed[variant.id] = f"{type(error).__name__}: {error}"

    def hand_over(self) -> None:
        """Write the file, then the note that announces it."""
        if not self._done and not self._failed:
            return
        paths = self._work.paths
        name = f"{self._work.run_id}-{self._chunk:05d}-{uuid.uuid4().hex[:8]}"
        note: dict[str, Any] = {
            "variants": self._done,
            "failed": self._failed,
            "is_compiled": is_compiled(),
        }
        if self._rows:
            file = paths.results / f"{name}.parquet"
            note |= {"file": file.name, "rows": len(self._rows), "nbytes": self._write(file)}
        write_atomically(paths.notes / f"{name}.json", json.dumps(note))

    def _write(self, file: Path) -> int:
        """Write the rows; return the bytes of the file."""
        import pyarrow.parquet as pq

        columns = [varied.result_column() for varied in self._work.plan.varied]
        schema = results_table(columns).arrow_schema()
        pq.write_table(pa.Table.from_pylist(self._rows, schema=schema), file)
        return file.stat().st_size


# --- The folder of a sweep: its identity, its table, and the commits of the workers' files to it.
#
# Only the driver commits, and only one process drives a folder, so a variant enters the table once:
# rows that a repeated task writes again are left out.


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
        "sweep": short_hash(text),
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


class VariantRunner:
    """Runs variants of a plan that its table has not yet, and collects their rows.

    - ``identity``: of the experiment that owns the folder.
    - ``make``: makes the executor; called once, if there is anything to run.
    - ``simulate``: runs one scenario; None: the virtual clock.
    - ``warn``: called with a message when the experiment stops.
    """

    def __init__(
        self,
        plan: Plan,
        paths: Paths,
        identity: str,
        make: Callable[[], Executor],
        simulate: Simulate | None,
        warn: Callable[[str], None],
    ) -> None:
        self.plan, self.paths, self.simulate, self.warn = plan, paths, simulate, warn
        self._make, self._run_id = make, uuid.uuid4().hex[:12]
        self.collector = Collector(paths, plan, identity, self._run_id)
        self._executor: Executor | None = None

    def missing(self, variants: Iterable[Variant]) -> list[Variant]:
        """Return the variants that are not in the table."""
        return [variant for variant in variants if variant.id not in self.collector.done]

    def start(self, parts: int) -> Executor:
        """Make the executor, and compile what it needs, unless there is one."""
        if self._executor is None:
            self._executor = self._make()
            if self.simulate is None:
                self._executor.warm_up(parts)
        return self._executor

    def run(
        self, variants: Sequence[Variant], parts: int, poll: Callable[[], str], noun: str
    ) -> None:
        """Run variants and wait for them.

        ``poll``: collects and returns the progress as text.
        """
        executor = self.start(parts)
        chunks = into_chunks(variants, executor.workers, self.plan.seed)
        work = SweepWork(self.paths, self._run_id, chunks, self.simulate, parts, self.plan)
        try:
            follow(executor, work, poll, self.warn, noun)
        except BaseException:
            self.collector.look_again()  # it may have been interrupted itself
            self.collector.collect()
            raise
        self.collector.collect()

    def first_failed(self, variants: Iterable[Variant], what: str) -> Variant:
        """Return the first of some variants that failed.

        Raises RunError if none did: ``what`` then says that their rows are not to be seen.
        """
        first = next((one for one in variants if one.id in self.collector.failed), None)
        if first is None:
            raise unseen_results(what, self.paths.root)
        return first

    def close(self) -> None:
        """Let the executor's processes end."""
        if self._executor is not None:
            self._executor.close()
