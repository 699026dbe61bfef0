"""Requests of sinks: batches, what is in flight, rate limits, retries."""
