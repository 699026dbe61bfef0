"""Two-phase commit: transactional sinks, the committer, and what a sink's readers see.

Pure as all of ``protocol``: the store is an interface, time an argument, nothing waits.
"""

from flowcontrol.protocol.commits.transactions import (
    Action,
    Lifecycle,
    Phase,
    SinkState,
    Transaction,
    TransactionState,
    TransactionStore,
)
from flowcontrol.protocol.commits.two_phase import TwoPhaseCommitSink

__all__ = [
    "Action",
    "Lifecycle",
    "Phase",
    "SinkState",
    "Transaction",
    "TransactionState",
    "TransactionStore",
    "TwoPhaseCommitSink",
]
