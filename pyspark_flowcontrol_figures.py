"""Where Spark finds the source ``flowcontrol_figures`` by itself: it imports ``pyspark_*`` modules.

Spark takes one source from each such module; :mod:`pyspark_flowcontrol` has the other.
"""

from __future__ import annotations

from flowcontrol.link.monitoring.view import FiguresSource


class DefaultSource(FiguresSource):
    """The data source ``flowcontrol_figures``, under the name that Spark looks for."""
