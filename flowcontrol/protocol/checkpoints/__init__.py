"""Checkpoints: what they write, how long that takes, and who decides."""
