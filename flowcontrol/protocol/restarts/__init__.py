"""What follows a failure: whether and when a job restarts, which tasks do, and how long it takes.

Pure rules; ``now`` is an argument everywhere. Source: Flink 1.20's
``runtime.executiongraph.failover`` (``reference/checkpoints-and-time.md`` section 4); the course
of a recovery is a model of ours beside it.
"""

from flowcontrol.protocol.restarts.catch_up import (
    age_bounds_us,
    backlog_at_restart,
    catch_up_us,
    records_reprocessed,
)
from flowcontrol.protocol.restarts.recovery import (
    Recovery,
    cancelled_us,
    recover,
    refused_death_seen_us,
    restart_us,
    restored_us,
    silent_death_seen_us,
    task_failure_seen_us,
)
from flowcontrol.protocol.restarts.regions import failover_tasks, pipelined_regions
from flowcontrol.protocol.restarts.strategies import RestartStrategy

__all__ = [
    "Recovery",
    "RestartStrategy",
    "age_bounds_us",
    "backlog_at_restart",
    "cancelled_us",
    "catch_up_us",
    "failover_tasks",
    "pipelined_regions",
    "records_reprocessed",
    "recover",
    "refused_death_seen_us",
    "restart_us",
    "restored_us",
    "silent_death_seen_us",
    "task_failure_seen_us",
]
