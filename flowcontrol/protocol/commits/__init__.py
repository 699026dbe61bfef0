"""Two-phase commit: a transactional sink, and what its readers see.

Pure as all of ``protocol``: the store is an interface, time an argument, nothing waits.
"""

from flowcontrol.protocol.commits.delivery import Delivery as Delivery
from flowcontrol.protocol.commits.delivery_figures import DeliverySample as DeliverySample
from flowcontrol.protocol.commits.delivery_figures import Guarantee as Guarantee
from flowcontrol.protocol.commits.transactions import Action as Action
from flowcontrol.protocol.commits.transactions import Lifecycle as Lifecycle
from flowcontrol.protocol.commits.transactions import Phase as Phase
from flowcontrol.protocol.commits.transactions import SinkState as SinkState
from flowcontrol.protocol.commits.transactions import Transaction as Transaction
from flowcontrol.protocol.commits.transactions import TransactionState as TransactionState
from flowcontrol.protocol.commits.transactions import TransactionStore as TransactionStore
from flowcontrol.protocol.commits.two_phase import TwoPhaseCommitSink as TwoPhaseCommitSink
