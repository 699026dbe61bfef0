"""Run many variants: ``./spark-submit.sh pipelines/sweep.py SCENARIO --vary KEY=VALUES``."""

from __future__ import annotations

import sys

from flowcontrol.cli.experiments import sweep_command

if __name__ == "__main__":
    sys.exit(sweep_command())
