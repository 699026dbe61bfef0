"""Lets the modules of this folder import each other by name, as the started processes do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
