"""Checkpoints: barriers, their coordinator, two-phase commit, restart strategies."""
