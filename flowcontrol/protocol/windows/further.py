"""Columns that windows aggregate beside the first: what each window holds of them.

Each function does for them what one of :mod:`.contents` does for the first column. Those of an
entry stand together, at its place; place 0, where no entry is, has those of the newest result.
Where no window has further columns, they do nothing.
"""

from flowcontrol.protocol.windows.contents import (
    NO_VALUE,
    absorb_values,
    purge_values,
    put_value_in,
)
from flowcontrol.protocol.windows.states import NONE, Windows


def put_further_in(windows: Windows, place: int) -> None:
    """Add the values of the element that is being taken in to a window; those that it has."""
    columns = windows.settings.further
    for i in range(columns):
        value = windows.table[windows.store.element_id * columns + i]
        if value != NO_VALUE:
            put_value_in(windows.further[place * columns + i], value)


def absorb_further(windows: Windows, place: int, other: int) -> None:
    """Add what the window at another place holds to a window."""
    columns = windows.settings.further
    for i in range(columns):
        absorb_values(windows.further[place * columns + i], windows.further[other * columns + i])


def purge_further(windows: Windows, place: int) -> None:
    """Empty a window."""
    columns = windows.settings.further
    for i in range(columns):
        purge_values(windows.further[place * columns + i])


def put_further_out(windows: Windows, place: int) -> None:
    """Make what a window holds that of the newest result."""
    purge_further(windows, NONE)
    absorb_further(windows, NONE, place)
