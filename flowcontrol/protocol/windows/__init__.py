"""Windows: which elements belong together, when they fire, and for how long they are kept.

Rules of integers, which the kernel compiles as they stand: :mod:`.firing` calls the others, and
:mod:`.spark_batches` has Structured Streaming's event time in place of Flink's.
"""
