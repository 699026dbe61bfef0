"""Transports and throttles: how other systems than Flink keep a stage from being overrun.

One file each, in :mod:`.transports` and :mod:`.throttles`; the modules ``tcp_*`` are Flink's own
connections before it had credits. Every rule is a function of numbers and typed state, without
clock or random, so that both clocks call the same. Each file names the sources of its formulas.
"""
