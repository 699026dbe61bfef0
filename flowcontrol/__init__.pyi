# The public names: each is loaded from its module when it is first asked for (flowcontrol/lazy.py).
from flowcontrol.errors import FlowControlError as FlowControlError
from flowcontrol.errors import InsufficientBuffersError as InsufficientBuffersError
from flowcontrol.errors import LinkError as LinkError
from flowcontrol.errors import ProtocolError as ProtocolError
from flowcontrol.errors import RunError as RunError
from flowcontrol.errors import ScenarioError as ScenarioError
from flowcontrol.experiments.advise.advise import advise as advise
from flowcontrol.experiments.capacity import capacity as capacity
from flowcontrol.experiments.compare.compare import compare as compare
from flowcontrol.experiments.sweep.sweep import sweep as sweep
from flowcontrol.experiments.tune.tune import tune as tune
from flowcontrol.ledger.audit import Violation as Violation
from flowcontrol.ledger.audit import audit as audit
from flowcontrol.link.link import Link as Link
from flowcontrol.report.result import Result as Result
from flowcontrol.run import RunResult as RunResult
from flowcontrol.run.emulate import emulate as emulate
from flowcontrol.run.jobs import rounds as rounds
from flowcontrol.run.plan import plan as plan
from flowcontrol.run.scale import scale as scale
from flowcontrol.scenario import Scenario as Scenario
from flowcontrol.scenario import load_scenario as load_scenario
from flowcontrol.stepview.step import step as step
from flowcontrol.trace.round_state import RoundState as RoundState
from flowcontrol.version import __version__ as __version__

__all__: list[str]
