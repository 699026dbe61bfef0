"""What reaches the terminal when a function that Spark calls back fails."""

from __future__ import annotations

import logging

import pytest

from flowcontrol.errors import LinkError, StoppedError
from flowcontrol.link.batches import LOGGERS, shorten_tracebacks


def printed(caplog, name, error):
    """What py4j prints of an error, as it does it."""
    caplog.clear()
    try:
        raise error
    except Exception:
        logging.getLogger(name).exception("There was an exception while executing the Python Proxy")
    return caplog.text


@pytest.mark.parametrize("name", LOGGERS)
def test_an_error_of_ours_is_one_line_and_a_stop_none(caplog, name):
    shorten_tracebacks()
    shorten_tracebacks()
    text = printed(caplog, name, LinkError("the link /lake is full"))
    assert "a batch of a link failed: the link /lake is full" in text
    assert "Traceback" not in text
    assert printed(caplog, name, StoppedError("stopped")) == ""
    caplog.set_level(logging.DEBUG, "flowcontrol.link")
    assert "stopped" in printed(caplog, name, StoppedError("stopped"))


def test_the_error_of_a_user_is_printed_whole(caplog):
    shorten_tracebacks()
    assert "Traceback" in printed(caplog, LOGGERS[0], ValueError("their sink"))
