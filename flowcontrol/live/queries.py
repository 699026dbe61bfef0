"""Run a job on the live clock: a query per stage, watched, ended between batches."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.errors import LedgerError, Problem, RunError, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS
from flowcontrol.ledger.log import sweep
from flowcontrol.live.batch import StageBatch
from flowcontrol.live.folder import RunFolder, RunPaths
from flowcontrol.live.history import History, Observed, check_run
from flowcontrol.live.replay import stage_replay, staged_rows
from flowcontrol.live.rows import ROUND, SUBTASK, row_schemas
from flowcontrol.live.runtime import replayed_of
from flowcontrol.live.whole import is_whole
from flowcontrol.notices import announce_step
from flowcontrol.results.figures import partition_figures
from flowcontrol.results.run import Run
from flowcontrol.spark.session import asking_on_interrupt, cause_of, register_source
from flowcontrol.spark.versions import has_read_limits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


LOOK_EVERY_S = 0.1

NOT_STARTED = "Python worker failed to connect back"
"""Spark's message if a reader's process has not called back within 10 s, which no setting changes
(``PythonWorkerFactory``). A busy machine can cause it, so the query is restarted from its
checkpoint."""

MOST_RESTARTS = 10
"""Restarts of a stage's query for that reason without a round in between."""

PATIENCE_S = 30.0
"""Seconds that queries are given to end between batches when a run fails; then they are stopped."""


class StageQueries:
    """The queries of a run.

    ``schemas``: columns of each stage's rows, without the hidden ones.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        paths: RunPaths,
        schemas: dict[str, pa.Schema],
        run_id: str,
    ) -> None:
        self._spark, self._job, self._paths = spark, job, paths
        self._schemas, self._run_id = schemas, run_id
        self.batches = {
            plan.name: StageBatch(job, plan.name, paths, schemas[plan.name], run_id)
            for plan in job.stages
        }
        check_run(job, paths, run_id)
        for link in job.links:
            sweep(paths.exchange(link))
            sweep(paths.ledger(link))
        if job.checkpoints is not None:
            sweep(paths.state)
        self._queries: dict[str, StreamingQuery] = {}
        self._restarts = Counter[tuple[str, int]]()
        """By stage and the rounds that it had done."""
        self._ended_early: str | None = None

    def run(self, watch: Callable[[int, int], None]) -> bool:
        """Run all stages to the last round.

        Whatever is raised, no query is active afterwards: the folder is given to others then.

        ``watch``: called now and then with the rounds that all stages have done, and with the
        records that the sinks have processed.

        Returns False if the run was stopped before its last round. Raises RunError if a query
        failed, or ended unasked; the others were ended between batches.
        """
        from flowcontrol.live.source import StageSource

        register_source(self._spark, StageSource)
        announce_step(
            "starting a query for each stage", "3 to 15 s until the first micro-batch is done"
        )
        try:
            with asking_on_interrupt(self.stop):
                for plan in self._job.stages:
                    self._queries[plan.name] = self._start(plan.name)
                while any(query.isActive for query in self._queries.values()):
                    try:
                        self._look(watch)
                    except KeyboardInterrupt:
                        self.stop()
        except BaseException:
            self._end()
            raise
        watch(*self._progress())
        self._raise_failure()
        return self._progress()[0] == self._job.rounds

    def _look(self, watch: Callable[[int, int], None]) -> None:
        watch(*self._progress())
        for stage, query in self._queries.items():
            error = query.exception()
            if error is None:
                if self._paths.ended_file(stage).exists() and query.isActive:
                    query.stop()  # it is between batches, and has none left
                elif self._has_ended_early(stage, query):
                    self._ended_early = stage
                    self.stop()
                continue
            here = stage, self.batches[stage].rounds
            if NOT_STARTED in str(error) and self._restarts[here] < MOST_RESTARTS:
                self._restarts[here] += 1
                self._queries[stage] = self._start(stage)
            else:
                self.stop()
        time.sleep(LOOK_EVERY_S)

    def _has_ended_early(self, stage: str, query: StreamingQuery) -> bool:
        """Tell whether a query has ended before its last round, unasked: others wait for it."""
        is_done = self.batches[stage].rounds >= self._job.rounds
        if is_done or query.isActive or self._paths.stop_file.exists():
            return False
        return query.exception() is None  # else it has failed since

    def stop(self) -> None:
        """Ask every stage to end after its current batch."""
        self._paths.stop_file.touch()

    def _end(self) -> None:
        """End every query: between batches if it notices the stop file in time."""
        deadline = time.monotonic() + PATIENCE_S
        try:
            with suppress(OSError):
                self.stop()
                for query in self._queries.values():
                    with suppress(Exception):  # how a query ended is no matter any more
                        query.awaitTermination(max(1, round(deadline - time.monotonic())))
        finally:
            for query in self._queries.values():
                with suppress(Exception):
                    if query.isActive:
                        query.stop()

    def _start(self, stage: str) -> StreamingQuery:
        reader = (
            self._spark.readStream.format("flowcontrol_stage")
            .option("scenario", json.dumps(self._job.scenario.canonical()))
            .option("folder", str(self._paths.root))
            .option("run_id", self._run_id)
            .option("stage", stage)
            .option("columns", json.dumps([*self._schemas[stage].names, ROUND, SUBTASK]))
        )
        own = {
            "spark.scheduler.pool": f"flowcontrol-{stage}",
            "spark.job.description": f"flowcontrol stage {stage}",
        }
        sweep_checkpoint(self._paths.checkpoint(stage))
        self._paths.ended_file(stage).unlink(missing_ok=True)
        with _thread_properties(self._spark, own):  # the query's thread inherits them
            writer = (
                reader.load()
                .writeStream.foreachBatch(self.batches[stage])
                .queryName(f"{self._job.scenario.name}-{stage}")
                .option("checkpointLocation", str(self._paths.checkpoint(stage)))
            )
            # Without read limits an availableNow query ends after one batch; its reader says when.
            return (writer.trigger(availableNow=True) if has_read_limits() else writer).start()

    def _progress(self) -> tuple[int, int]:
        done = min(batch.rounds for batch in self.batches.values())
        sinks = [plan.name for plan in self._job.stages if any(one.is_sink for one in plan.members)]
        return done, sum(self.batches[name].records for name in sinks)

    def _raise_failure(self) -> None:
        """Raise the first failure; Spark's full message goes into a file."""
        for stage, query in self._queries.items():
            error = query.exception()
            if error is not None:
                self._paths.failure_file.write_text(str(error))
                raise RunError(
                    f"stage {stage}: {cause_of(str(error))} (all of it: {self._paths.failure_file})"
                ) from error
        if self._ended_early is not None:
            stage = self._ended_early
            raise RunError(
                f"stage {stage}: its query ended after {self.batches[stage].rounds:,} of "
                f"{self._job.rounds:,} rounds, and this process did not stop it: somebody else "
                f"did, or its checkpoint, {self._paths.checkpoint(stage)}, belongs to another "
                "run or moment than its ledgers. Give the same command again; if that says so "
                "again, put the checkpoint back as it was, or begin the run anew with --overwrite"
            )


def sweep_checkpoint(folder: Path) -> None:
    """Remove the temporary files that a killed query left in its checkpoint.

    Spark writes ``offsets/0`` as ``offsets/.0.<uuid>.tmp`` and renames it. After a kill in between,
    Spark 4.2 refuses the checkpoint: ``offsets should be empty on batch 0``
    (``STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY``). The run's folder is ours while it is locked.
    """
    for log in ("offsets", "commits"):
        for file in (folder / log).glob(".*.tmp*"):
            file.unlink()


@contextmanager
def _thread_properties(spark: SparkSession, own: Mapping[str, str]) -> Iterator[None]:
    """Set properties of this thread's jobs for a block; the user's own are back after it."""
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in own}
    try:
        for key, value in own.items():
            context.setLocalProperty(key, value)
        yield
    finally:
        for key, was in before.items():
            context.setLocalProperty(key, was)  # type: ignore[arg-type]  # None removes it


def run_live(
    spark: SparkSession, job: Job, folder: RunFolder, watch: Callable[[int, int], None]
) -> Run:
    """Run all rounds that are missing, and read the results off the ledgers.

    ``watch``: called now and then with the rounds done and the records that reached the sinks.

    Raises RunError if an input cannot be read or a query fails. Raises ScenarioError if the inputs
    of a stage have different columns, or the folder lacks something that the run has left in it.
    """
    began = time.monotonic()
    replayed = {
        plan.name: stage_replay(spark, job, plan, folder.paths.replay(plan.name)).schema()
        for plan in job.stages
        if plan.stage.input is not None
    }
    rows = staged_rows(job, folder.paths.replay).keys if job.scenario.has_stamps else NO_KEYS
    schemas = row_schemas(job, replayed, rows)
    try:
        queries = StageQueries(spark, job, folder.paths, schemas, folder.run_id)
    except LedgerError as error:  # nothing was written
        raise ScenarioError([Problem("--out", str(error))], "command") from error
    finished = queries.run(watch)
    history = History.of_run(job, folder.paths)
    observed = Observed(job, replayed_of(job, folder.paths), history)
    observed.run(lambda rounds, records: None)
    return Run(
        job,
        observed.result_tables(),
        history.rounds,
        time.monotonic() - began,
        finished,
        jobs=tuple(run.document() for run in observed.finish()) or observed.failed_job,
        partitions=partition_figures(job, observed.memory) if is_whole(job) else {},
        staged={} if observed.delivery is None else observed.delivery.staged(),
    )
