"""Run many variants: ``./spark-submit.sh pipelines/sweep.py SCENARIO --vary KEY=VALUES``."""

from __future__ import annotations

import sys

from flowcontrol.cli.main import pipeline

if __name__ == "__main__":
    sys.exit(pipeline("sweep"))
