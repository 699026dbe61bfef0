"""Two-phase commit: a transactional sink, and what its readers see.

Pure as all of ``protocol``: the store is an interface, time an argument, nothing waits.
"""

from flowcontrol.protocol.commits.delivery import Delivery
from flowcontrol.protocol.commits.delivery_figures import DeliverySample, Guarantee
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
    "Delivery",
    "DeliverySample",
    "Guarantee",
    "Lifecycle",
    "Phase",
    "SinkState",
    "Transaction",
    "TransactionState",
    "TransactionStore",
    "TwoPhaseCommitSink",
]
