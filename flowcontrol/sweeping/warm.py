"""Compiling the virtual clock once, before many workers would do it at the same time."""

from __future__ import annotations

from typing import Final

from flowcontrol.virtual.compiled import is_compiled, is_kept

COMPILING: Final = "compiling the virtual clock{place}, 15 to 40 s, once"
"""What a user is told before it takes that long."""


def lacks_kernel(parts: int) -> bool:
    """Tell whether the first run on this machine compiles, and the next ones need not.

    Parameters
    ----------
    parts : int
        Parts of the kernel that all runs together need.
    """
    return is_compiled() and not is_kept(parts)


def warm_up(parts: int) -> None:
    """Compile the kernel that has these parts, or load it; nothing without a compiler."""
    if is_compiled():
        from flowcontrol.virtual.loop import prepare

        prepare(parts)
