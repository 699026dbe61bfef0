"""Windows: the laws after every round, and what happened."""

from __future__ import annotations
