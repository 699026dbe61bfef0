"""What windows ask of a clock, beside what event time does."""

from collections.abc import Sequence
from typing import Protocol

from flowcontrol.operators.timed_worker import TimedWorker
from flowcontrol.operators.window_states import WindowTask
from flowcontrol.operators.worker import W
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.windows.states import Windows


class WindowedWorker(TimedWorker[W], Protocol[W]):
    """A subtask with windows."""

    def window_task(self) -> WindowTask:
        """Return what it holds of its windows besides them."""

    def windows(self) -> Windows:
        """Return its windows."""

    def watermark_operators(self) -> Sequence[WatermarkOperator]:
        """Return what it has seen of each input, a gate each; of a job with Spark's time."""

    def first_ids(self, gate: int) -> Row:
        """Return the first id of each key of the records of a gate; empty: keys are alike."""

    def keys_of_ids(self, gate: int) -> Row:
        """Return the key of each id of the records of a gate; empty: they are made."""

    def values_of_ids(self) -> Row:
        """Return the value of each id in the first column; empty: records are counted alone."""

    def make_room(self) -> None:
        """Act on windows for which there is no room."""

    def note_result(self) -> None:
        """Take notice of the result that the windows' store has."""
