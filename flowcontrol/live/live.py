"""Run a job on the live clock, in a folder that is ready for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcontrol.job import Job
from flowcontrol.job.run import Run
from flowcontrol.live.folder import RunFolder
from flowcontrol.live.history import History
from flowcontrol.live.queries import StageQueries
from flowcontrol.live.replay import stage_replay
from flowcontrol.live.results import result_tables
from flowcontrol.live.rowschema import row_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_live(
    spark: SparkSession, job: Job, folder: RunFolder, watch: Callable[[int, int], None]
) -> Run:
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
    began = time.monotonic()
    replayed = {
        plan.name: stage_replay(spark, job, plan, folder.paths.replay(plan.name)).schema()
        for plan in job.stages
        if plan.stage.input is not None
    }
    schemas = row_schemas(job, replayed)
    finished = StageQueries(spark, job, folder.paths, schemas, folder.run_id).run(watch)
    history = History.of_run(job, folder.paths)
    tables = result_tables(job, history)
    return Run(job, tables, history.rounds, time.monotonic() - began, finished)
