"""Between two rounds: checkpoints, failures, deliveries, throttles, batches, aligned sources.

Both clocks call it. It may import the kernel and what the kernel imports.
"""
