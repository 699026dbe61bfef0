"""Sustainable rate: ``./spark-submit.sh pipelines/capacity.py SCENARIO --stage SOURCE``."""
# Read by spark-submit.sh:
# needs no Java

from __future__ import annotations

import sys

from flowcontrol.cli.capacity import main

if __name__ == "__main__":
    sys.exit(main())
