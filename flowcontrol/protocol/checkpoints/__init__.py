"""Checkpoints: who triggers them, when, and what becomes of them.

Pure, as the whole of :mod:`flowcontrol.protocol`: nothing waits, ``now`` is an argument, and
what a call causes is a list of plain tuples.
"""
