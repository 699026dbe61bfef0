"""Sustainable rate: ``./spark-submit.sh pipelines/capacity.py SCENARIO --stage SOURCE``."""
# Read by spark-submit.sh:
# needs no Java

from __future__ import annotations

import sys

from flowcontrol.cli.main import pipeline

if __name__ == "__main__":
    sys.exit(pipeline("capacity"))
