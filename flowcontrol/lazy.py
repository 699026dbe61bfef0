"""Names of a package that are loaded when they are first asked for, by its ``__init__.pyi``."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def names_of(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose stub says where each public name is.

    A line of the stub is ``from MODULE import NAME as NAME``. ``__all__`` are these names.
    """

    @cache
    def places() -> dict[str, str]:
        import re

        module: Any = import_module(package)
        text = module.__loader__.get_data(module.__file__ + "i").decode()  # also of a zip archive
        found = re.findall(r"^from (\S+) import (\w+) as \2$", text, re.MULTILINE)
        return {name: module for module, name in found if not name.startswith("_")}

    def of_package(name: str) -> Any:
        """Load a public name."""
        if name == "__all__":
            return sorted(places())
        if name in places():
            return getattr(import_module(places()[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return of_package
