"""What follows a failure: whether and when a job restarts, which tasks do, and how long it takes.

Pure rules; ``now`` is an argument everywhere. Source: Flink 1.20's
``runtime.executiongraph.failover`` (``reference/checkpoints-and-time.md`` section 4); the length
of a restore is a model of ours beside it.
"""

from flowcontrol.protocol.restarts.recovery import refused_death_seen_us as refused_death_seen_us
from flowcontrol.protocol.restarts.recovery import restored_us as restored_us
from flowcontrol.protocol.restarts.recovery import silent_death_seen_us as silent_death_seen_us
from flowcontrol.protocol.restarts.regions import failover_tasks as failover_tasks
from flowcontrol.protocol.restarts.regions import pipelined_regions as pipelined_regions
from flowcontrol.protocol.restarts.strategies import RestartStrategy as RestartStrategy
