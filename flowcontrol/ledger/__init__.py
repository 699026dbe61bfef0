"""Credit and backlog at rest: Delta tables. The only place that knows table names and commits."""
