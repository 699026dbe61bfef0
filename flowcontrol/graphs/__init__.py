"""Flink's graphs of a job: operators, chains, subtasks and channels, slots; pure rules.

From a stream graph (what the program says) to a job graph (operators that run in one task are one
vertex), to an execution graph (subtasks, results, channels, regions), to slots and task managers.
Nothing here knows a scenario, a clock or a file; :mod:`flowcontrol.deployment` reads a scenario
into these. Source of every fact: ``reference/deployment-and-diagnosis.md`` sections 1 and 2.
"""
