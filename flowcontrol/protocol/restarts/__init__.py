"""After a failure: whether and when a job restarts, which tasks do, and how long it takes.

Pure rules; ``now`` is an argument everywhere. Source: Flink 1.20's
``runtime.executiongraph.failover`` (``reference/checkpoints-and-time.md`` section 4); the
length of a restore is a model of ours beside it.
"""
