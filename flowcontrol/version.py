"""The version of the program, for what must not load the whole package."""

__version__ = "0.1.0"
