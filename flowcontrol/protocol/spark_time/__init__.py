"""Event time as Structured Streaming has it: one watermark per query, used from the next batch on.

Pure, as the whole of :mod:`flowcontrol.protocol`: a batch is a call. Flink's windows, beside which
these stand, fire at their watermark; Spark's put out at the end of a batch.
"""
