"""Backpressure in stream processing, on PySpark: emulate it, or put it into a pipeline.

Importing the package loads no engine: pyspark, numba and plotting come with what needs them. The
public names are listed in ``__init__.pyi``.
"""

from flowcontrol.lazy import names_of
from flowcontrol.version import __version__ as __version__

__getattr__ = names_of(__name__)


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return [*__getattr__("__all__")]
