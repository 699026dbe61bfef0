"""Where Spark finds the source ``flowcontrol`` by itself: it looks into modules ``pyspark_*``.

So ``spark.readStream.format("flowcontrol").load(path)`` works wherever this package is installed.
"""

from __future__ import annotations

from flowcontrol.link.source import LinkSource

__all__ = ["DefaultSource"]


class DefaultSource(LinkSource):
    """The data source ``flowcontrol``, under the name that Spark looks for."""
