"""The control plane: who registers with whom, gives slots, deploys, watches and restarts.

Pure rules and state of Flink 1.20's ``ResourceManager``, ``JobMaster`` and ``TaskExecutor``;
``now``, in microseconds, is an argument everywhere, and each call returns what it caused.
"""
