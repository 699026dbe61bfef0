"""What is printed when a function that Spark calls back fails.

py4j prints the whole traceback of such a function (``clientserver._call_proxy``) before Spark has
decided anything. Errors of this package name place, value and remedy, and Spark raises them again
with the query: of them a line is enough, and of a stop, after which the batch runs again, none.
"""

import logging

from flowcontrol.errors import FlowControlError, StoppedError

LOGGERS = ("py4j.clientserver", "py4j.java_gateway")
"""py4j's loggers, of pinned threads and of its older gateway."""

_log = logging.getLogger("flowcontrol.link")


class _OneLine(logging.Filter):
    """Replaces the traceback of an error of this package by its text."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is printed."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, FlowControlError):
            return True
        if isinstance(error, StoppedError):
            _log.debug("%s", error)
            return False
        record.msg, record.args = f"a batch of a link failed: {error}", ()
        record.exc_info = record.exc_text = None
        return True


_FILTER = _OneLine()


def shorten_tracebacks() -> None:
    """Have py4j print one line of an error of this package; of another all of it, as before."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)  # once: the same object again adds nothing
