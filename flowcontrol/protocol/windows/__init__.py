"""Windows: which elements belong together, when they fire, and for how long they are kept.

:class:`WindowOperator` is a thin object over rules of integers, which a kernel compiles as they
stand: :mod:`.firing` is what calls the others.
"""

from flowcontrol.protocol.windows.operator import WindowOperator, window_start

__all__ = ["WindowOperator", "window_start"]
