"""Run a job on the live clock, in a folder that is ready for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcontrol.job import Job
from flowcontrol.live.folder import RunFolder
from flowcontrol.live.history import History
from flowcontrol.live.queries import StageQueries
from flowcontrol.live.replay import stage_replay
from flowcontrol.live.results import result_tables
from flowcontrol.live.rowschema import row_schemas

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LiveRun:
    """What a live run yields.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        ``stages``, ``channels``, ``latency``, up to the last round that all stages have done.
    rounds : int
        How many that are.
    is_finished : bool
        Whether they are all.
    """

    tables: dict[str, pa.Table]
    rounds: int
    is_finished: bool


def run_live(
    spark: SparkSession, job: Job, folder: RunFolder, watch: Callable[[int, int], None]
) -> LiveRun:
    """Run all rounds that are missing, and read the results off the ledgers.

    Parameters
    ----------
    spark : SparkSession
        Where the stages' queries run.
    job : Job
        The scenario, laid out.
    folder : RunFolder
        Where everything is written.
    watch : callable
        Called now and then with the rounds done and the records that reached the sinks.

    Raises
    ------
    RunError
        If an input cannot be read or a query fails.
    ScenarioError
        If the inputs of a stage have different columns.
    """
    replayed = {
        plan.name: stage_replay(spark, job, plan, folder.paths.replay(plan.name)).schema()
        for plan in job.stages
        if plan.stage.input is not None
    }
    schemas = row_schemas(job, replayed)
    finished = StageQueries(spark, job, folder.paths, schemas, folder.run_id).run(watch)
    history = History.of_run(job, folder.paths)
    return LiveRun(result_tables(job, history), history.rounds, finished)
