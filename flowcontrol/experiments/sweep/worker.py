"""What a worker does: run a chunk of variants and leave their rows in files.

A worker may be a Python worker of a Spark executor, a process of this machine, or the driver
itself. It writes Parquet files into the folder of the table, where they count for nothing until
the driver has committed them, and beside them a note on each, which the driver finds.
"""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from flowcontrol.experiments.executor import Simulate, Work, virtual_clock
from flowcontrol.experiments.sweep.columns import results_table, variant_rows
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.variants import Variant
from flowcontrol.files import write_atomically
from flowcontrol.kernel.compiled import is_compiled
from flowcontrol.spark.versions import freeze_loaded

PART_S: Final = 5.0
"""Seconds after which a worker hands over what it has: as much is lost by a kill."""


@dataclass(frozen=True)
class SweepWork(Work):
    """The work of a sweep; a chunk is a sequence of variants."""

    plan: Plan  # Base scenario and varied keys

    def run_chunk(self, number: int, now: Callable[[], float] = time.monotonic) -> int:
        """Run a chunk and write its rows in parts.

        ``now`` (s): a monotonic clock.

        Returns number of variants run. A failed variant is noted and does not stop the others; when
        the sweep is stopped, the chunk ends after the current variant.
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
