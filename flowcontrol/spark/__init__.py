"""Spark for the live clock and the link: session, workers, crash points."""
