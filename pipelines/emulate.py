"""Emulate a scenario: ``./spark-submit.sh pipelines/emulate.py SCENARIO [--out DIR]``."""
# Read by spark-submit.sh:
# many short jobs

from __future__ import annotations

import sys

from flowcontrol.cli.main import pipeline

if __name__ == "__main__":
    sys.exit(pipeline("emulate"))
