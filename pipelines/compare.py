"""Compare systems: ``./spark-submit.sh pipelines/compare.py SCENARIO [--systems NAME,NAME]``."""

from __future__ import annotations

import sys

from flowcontrol.cli.main import pipeline

if __name__ == "__main__":
    sys.exit(pipeline("compare"))
