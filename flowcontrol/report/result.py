"""The result of a call: figures, tables and a page, and how it shows itself, the same for all."""

from __future__ import annotations

import io
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.console import Console

from flowcontrol.errors import RunError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_WIDTH: Final = 100
"""Characters in a line of a notebook's output."""

_BOX: Final = (
    '<div class="flowcontrol-result"><p style="margin:0 0 .5em"><b>{title}</b></p>'
    '<pre style="margin:0;padding:0;background:none;color:inherit;line-height:1.4;'
    'white-space:pre-wrap">{text}</pre>'
    '<p style="margin:.5em 0 0;font-size:90%">{below}</p></div>'
)


class Result:
    """What a call found.

    Attributes
    ----------
    kind : str
        What it is, as a title: ``run of`` a scenario.
    name : str
        Of the scenario.
    path : Path or None
        Folder of the results; None if nothing is written.
    sentence : str
        The conclusion.
    summary : dict
        Its figures, plain JSON values.
    tables : mapping of str to pyarrow.Table
        Tables by name; iterating over it yields the names.
    """

    kind: ClassVar[str]

    if TYPE_CHECKING:  # a field of one class, worked out by another: no property at run time

        @property
        def name(self) -> str:
            """As above."""
            raise NotImplementedError

        @property
        def path(self) -> Path | None:
            """As above."""
            raise NotImplementedError

        @property
        def sentence(self) -> str:
            """As above."""
            raise NotImplementedError

        @property
        def summary(self) -> dict[str, Any]:
            """As above."""
            raise NotImplementedError

        @property
        def tables(self) -> Mapping[str, pa.Table]:
            """As above."""
            raise NotImplementedError

    def show(self, console: Console | None = None) -> None:
        """Print the result as the command does at its end.

        Parameters
        ----------
        console : rich.console.Console, optional
            By default standard output.
        """
        raise NotImplementedError

    @property
    def report(self) -> Path | None:
        """The page; None if none was written."""
        page = None if self.path is None else self.path / "report.html"
        return page if page is not None and page.exists() else None

    def to_pandas(self, name: str) -> pd.DataFrame:
        """Return a table as a data frame.

        Parameters
        ----------
        name : str
            One of ``tables``.

        Raises
        ------
        RunError
            If there is no table of this name.
        """
        if name not in self.tables:
            known = ", ".join(self.tables)
            raise RunError(f"{name!r} is not a table of this result: use one of {known}")
        found: pd.DataFrame = self.tables[name].to_pandas()
        return found

    def __repr__(self) -> str:
        """Return kind, scenario and folder in a line."""
        place = "" if self.path is None else f", {str(self.path)!r}"
        return f"{type(self).__name__}({self.name!r}{place})"

    def __str__(self) -> str:
        """Return the conclusion, the tables and the page in a few lines."""
        lines = [self.sentence, f"tables: {', '.join(self.tables)}"]
        if self.report is not None:
            lines.append(f"report: {self.report}")
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        console = Console(file=io.StringIO(), record=True, width=_WIDTH, color_system="truecolor")
        self.show(console)
        text = console.export_html(inline_styles=True, code_format="{code}")
        rows = (f"{name} ({table.num_rows:,} rows)" for name, table in self.tables.items())
        below = f"tables: {escape(', '.join(rows))}"
        if self.report is not None:
            href = escape(self.report.resolve().as_uri())
            below += (
                f'<br>report: <a style="color:inherit" href="{href}">{escape(str(self.report))}</a>'
            )
        return _BOX.format(
            title=escape(f"{self.kind} {self.name}"), text=text.strip("\n"), below=below
        )


def print_text(text: str, console: Console | None = None) -> None:
    """Print lines as they are, however wide the console is."""
    (console or Console()).print(text, markup=False, highlight=False, soft_wrap=True)
