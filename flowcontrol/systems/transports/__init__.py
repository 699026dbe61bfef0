"""Transports that count records, one file each: the receiver's grants and the sender's rights.

A file has the formulas of a transport and ``RULES``, its functions of one signature
(:class:`.transport.Transport`); both clocks call them through :mod:`.rules`. To add a transport,
write its file and its line in ``flowcontrol/scenario/parts.yaml``.
"""
