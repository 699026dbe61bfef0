"""The sequence numbers of a channel at its receiver (``RemoteInputChannel``, reference 1.1, 4)."""

from flowcontrol.errors import ProtocolError


class ExpectedSequence:
    """What a receiver expects of a channel's sequence numbers.

    Parameters
    ----------
    expected : int, default 0
        Number of the next data or event.

    Attributes
    ----------
    expected : int
        Number of the next data or event.
    """

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected

    def receive(self, number: int) -> None:
        """Take note of data or an event.

        Parameters
        ----------
        number : int
            Its sequence number.

        Raises
        ------
        ProtocolError
            If it is not the one expected: something was lost, doubled or overtaken. Nothing has
            changed then.
        """
        if number != self.expected:
            raise ProtocolError(
                f"Buffer re-ordering: expected buffer with sequence number {self.expected}, but "
                f"received {number}"
            )
        self.expected += 1
