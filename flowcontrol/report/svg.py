"""SVG elements as text, with attributes and texts escaped."""

from __future__ import annotations

from html import escape

Value = str | float | None


def element(tag: str, *children: str, **attributes: Value) -> str:
    """Return one element.

    Parameters
    ----------
    tag : str
        Name of the element.
    *children : str
        Markup of what is inside, escaped already (other elements, or :func:`text`).
    **attributes : str, float or None
        Attributes; ``_`` in a name becomes ``-``, a trailing one is dropped (``class_``).
        None leaves the attribute out.

    Returns
    -------
    str
        The markup.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if not children:
        return f"<{tag}{written}/>"
    return f"<{tag}{written}>{''.join(children)}</{tag}>"


def text(content: str) -> str:
    """Return plain text as markup."""
    return escape(content)


def coordinate(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _attribute(value: str | float) -> str:
    return escape(value, quote=True) if isinstance(value, str) else coordinate(value)
