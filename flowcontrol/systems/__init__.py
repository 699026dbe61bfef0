"""Transports and throttles: how other systems than Flink keep a stage from being overrun.

One file each. Every rule is a function of numbers, without state, clock or random, so that both
clocks call the same; what a policy remembers between two calls is handed in and comes back. The
sources of the formulas are named in each file.
"""
