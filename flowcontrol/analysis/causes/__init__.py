"""Why a job is slow, not only where: causes with their figures.

:func:`find_causes` reads the tables of a run, :func:`root_cause` one moment of any job.
"""

from flowcontrol.analysis.causes.find import find_causes
from flowcontrol.analysis.causes.pools import PoolReading, pool_readings
from flowcontrol.analysis.causes.root_cause import Finding, root_cause
from flowcontrol.analysis.causes.run import WORDS, Cause, Word

__all__ = [
    "WORDS",
    "Cause",
    "Finding",
    "PoolReading",
    "Word",
    "find_causes",
    "pool_readings",
    "root_cause",
]
