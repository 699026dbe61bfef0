"""The live clock: Structured Streaming queries in lock-step, rows through Delta."""
