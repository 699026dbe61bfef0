"""Sustainable rate: ``./spark-submit.sh pipelines/capacity.py SCENARIO --stage SOURCE``."""
# Read by spark-submit.sh:
# needs no Java

from __future__ import annotations

import sys

from flowcontrol.cli.experiments import capacity_command

if __name__ == "__main__":
    sys.exit(capacity_command())
