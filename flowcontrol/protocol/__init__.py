"""Flink's credit-based flow control as pure rules and state machines.

The package imports the standard library, :mod:`flowcontrol.state` and our errors only: no clock, no
randomness, no Spark, no file. Its modules hold every formula once, each folder those of a subject,
and the objects that runs use besides. Nothing ever waits: a request that cannot
be served returns None. What only replays Flink's test cases is in :mod:`flowcontrol.spec`.

Source of every fact: Apache Flink 1.20's network stack (``reference/flink-network.md``).
"""
