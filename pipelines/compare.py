"""Compare systems: ``./spark-submit.sh pipelines/compare.py SCENARIO [--systems NAME,NAME]``."""

from __future__ import annotations

import sys

from flowcontrol.cli.experiments import compare_command

if __name__ == "__main__":
    sys.exit(compare_command())
