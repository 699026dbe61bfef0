"""Two-phase commit: transactional sinks, the committer, and what a sink's readers see.

Pure as all of ``protocol``: the store is an interface, time an argument, nothing waits.
"""

from flowcontrol.protocol.commits.committables import END_OF_INPUT
from flowcontrol.protocol.commits.committer import RETRY_DELAY_MS, Committer
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
    "END_OF_INPUT",
    "RETRY_DELAY_MS",
    "Action",
    "Committer",
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
