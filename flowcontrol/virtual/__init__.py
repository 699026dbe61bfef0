"""The virtual clock: the same rounds in a compiled loop over arrays, no Spark."""
