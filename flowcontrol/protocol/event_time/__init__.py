"""Event time: watermarks from generators to valves, and sources that wait for each other.

Pure, as the whole of :mod:`flowcontrol.protocol`: functions of integers and of states, which
the compiled kernel runs as they stand; the valve of a link is an object over them. All times
are whole milliseconds in 64 bits.

Source: Flink 1.20 (``reference/checkpoints-and-time.md`` section 6, ``flink-network.md``
section 14). A latency marker needs no rule but its size: it goes to one random channel of each
output, in order with data, and its value at an operator is now less when it was marked.
"""
