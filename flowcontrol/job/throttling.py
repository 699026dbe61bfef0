"""The controller of a job's throttle."""

from flowcontrol.job.job import Job
from flowcontrol.systems.throttles.controller import Controller
from flowcontrol.systems.throttles.make import make_controller


def controller_of(job: Job) -> Controller | None:
    """Return the controller of a job's throttle, at rest; None if it has none."""
    system = job.scenario.system
    return make_controller(
        system.throttle,
        system.throttle_values,
        round_us=job.round_us,
        spouts_above=job.sources_above(),
    )
