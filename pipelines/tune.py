"""Search: ``./spark-submit.sh pipelines/tune.py SCENARIO --minimise FIGURE --vary KEY=VALUES``."""

from __future__ import annotations

import sys

from flowcontrol.cli.main import pipeline

if __name__ == "__main__":
    sys.exit(pipeline("tune"))
