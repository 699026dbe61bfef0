"""What the live clock and the link need of Spark: session, workers, crash points."""
