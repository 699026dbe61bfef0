"""When something that failed is tried again.

Sources: ``JdbcOutputFormat.flush`` (sleeps 1000 ms x attempt), ``BackoffPolicy`` of Elasticsearch.
"""

from math import exp

from flowcontrol.state.requests import Backoff

_MILLION = 1_000_000
_STEEP_US = 10_000


def delay_after(backoff: Backoff, failures: int) -> int:
    """Return the time until the next attempt, in units, after so many failures before this one."""
    us = backoff.first_us
    for _ in range(failures if backoff.multiplier > _MILLION else 0):
        if us >= backoff.most_us:
            break
        us = us * backoff.multiplier // _MILLION
    if backoff.is_steep == 1:
        us += _STEEP_US * (int(exp(0.8 * min(failures, 25))) - 1)
    us = min(us + backoff.step_us * failures, backoff.most_us)
    return (us + backoff.unit_us - 1) // backoff.unit_us
