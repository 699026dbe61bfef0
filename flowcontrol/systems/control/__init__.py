"""Controllers: what turns observations of a whole job into commands to its sources.

A controller is the acting half of a throttle. At the end of some rounds it is shown the job, and
answers with a command to each source, in force from the next round on. It knows no clock and no
chance, and what it remembers is plain JSON: both clocks run the same code. The formulas are those
of :mod:`flowcontrol.systems`.

Every controller sees the job at the ends of rounds and is heard at their beginnings, so whatever a
real system does in between (a mark that is crossed, a delay, a batch that ends) happens at the next
end of a round: all times are rounded up to whole rounds. Each file states what else differs.
"""

from flowcontrol.systems.control.controller import NEVER, Controller
from flowcontrol.systems.control.make import check_values, make_controller
from flowcontrol.systems.control.seen import Command, Seen, SourceSeen, TaskSeen

__all__ = [
    "NEVER",
    "Command",
    "Controller",
    "Seen",
    "SourceSeen",
    "TaskSeen",
    "check_values",
    "make_controller",
]
