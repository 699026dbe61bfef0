"""Requests of sinks and calls of operators: batches, what is in flight, rate limits, retries."""
