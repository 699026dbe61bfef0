"""The command line: each command reads its arguments and makes one call."""
