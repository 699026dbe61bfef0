"""Parts of pages: charts, tables, key figures, scripts and styles."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

from flowcontrol.analysis.wording import size as size_text
from flowcontrol.files import package_yaml
from flowcontrol.report.figures import Chart, Figure

# --- Numbers for people: thousands separated, about three significant digits.


def number(value: float) -> str:
    """Return a number with about three significant digits: ``6,000``, ``12.5``, ``0.25``."""
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def rate(records_per_s: float) -> str:
    """Return a rate with its unit: ``6,000 records/s``."""
    return f"{number(records_per_s)} records/s"


def percent(ratio: float) -> str:
    """Return a ratio in per cent: ``47 %``; between 0 and 1 % with a decimal."""
    decimals = 1 if 0 < abs(ratio) < 0.01 else 0
    return f"{100 * ratio:.{decimals}f} %"


def share_of_time(ms_per_s: float) -> str:
    """Return a share of time, ms/s, in per cent."""
    return percent(ms_per_s / 1000)


def score(per_cent: float) -> str:
    """Return a score that is in per cent already: ``30 %``."""
    return percent(per_cent / 100)


def milliseconds(value: float) -> str:
    """Return a time with its unit: ``196 ms``, from a second on ``4.51 s``."""
    return f"{number(value / 1000)} s" if value >= 1000 else f"{number(value)} ms"


def bytes_text(value: float) -> str:
    """Return a size with a binary unit, as sentences have it: ``320 KiB``, ``12 B``."""
    return size_text(value).replace("bytes", "B")


_REPORT: Final = "flowcontrol.report"


def key_figure(label: str, value: str, note: str) -> str:
    """Return one of the large figures at the top of a page, as markup."""
    return (
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
    )


def chart_section(chart: Chart) -> str:
    """Return the section of one chart, as markup; the page's script fills the empty element."""
    if chart.figure["data"]:
        height = chart.figure["layout"]["height"]
        place = f'<div class="chart" id="{chart.id}" style="height:{height}px"></div>'
    else:
        place = f'<div class="chart empty" id="{chart.id}">Nothing was recorded.</div>'
    return (
        f'<section id="section-{chart.id}"><h2>{escape(chart.title)}</h2>{chart.controls}'
        f"<figure>{place}"
        f"<figcaption>{escape(chart.explanation)}</figcaption></figure></section>\n"
    )


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as markup.

    ``rows``: cells as escaped markup; a row of one cell spans all columns.
    """
    return table_of(heads, [table_body(rows, len(heads))])


def table_of(heads: Sequence[str], bodies: Iterable[str]) -> str:
    """Return a table of several bodies, from :func:`table_body`, as markup."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in heads)
    return f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table>"


def table_body(
    rows: Iterable[Sequence[str]],
    columns: int,
    *,
    id: str = "",
    class_: str = "",
    is_hidden: bool = False,
) -> str:
    """Return one body of a table as markup.

    - ``rows``: cells as escaped markup; a row of one cell spans all columns.
    - ``is_hidden``: shown by a script only, or where there are none.
    """
    named = {"id": id, "class": class_}
    attributes = "".join(f' {key}="{value}"' for key, value in named.items() if value)
    body = "".join(f"<tr>{_cells(row, columns)}</tr>" for row in rows)
    return f"<tbody{attributes}{' hidden' if is_hidden else ''}>{body}</tbody>"


def _cells(row: Sequence[str], columns: int) -> str:
    if len(row) == 1 < columns:
        return f'<td colspan="{columns}">{row[0]}</td>'
    return "".join(f"<td>{cell}</td>" for cell in row)


def json_for_script(value: Any) -> str:
    """Return JSON that cannot end the script element that carries it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _packed_script(figures: Mapping[str, Figure]) -> str:
    """Return figures, gzipped, as base64: cells of heat maps take a fiftieth of their space."""
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    data = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'\n<script type="application/gzip" id="packed">{data}</script>'


def plotly_script() -> str:
    """Return plotly's own script, gzipped (RFC 1952), as base64; the page's script unpacks it.

    The file is that of ``plotly.js-cartesian-dist-min`` on npm. It is part of this package, as
    PyPI has all of plotly only, which is three times as large (``docs/decisions/002``).
    """
    file = resources.files(_REPORT).joinpath("plotly-cartesian.min.js.gz")
    return b64encode(file.read_bytes()).decode()


def asset(package: str, name: str) -> str:
    """Return a text file of a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def chart_of(
    id: str,
    figure: Figure,
    note: str = "",
    *,
    texts: str = "",
    controls: str = "",
    is_packed: bool = False,
    words: Mapping[str, str] | None = None,
) -> Chart:
    """Return a chart of a run's page, with its title and text from ``charts.yaml``.

    - ``note``: what is left out, behind the text.
    - ``texts``: the name of the texts; by default the chart's own.
    - ``words``: what completes the text.
    """
    own = chart_texts()[texts or id]
    return Chart(
        id, own["title"], own["text"].format(**words or {}) + note, figure, controls, is_packed
    )


@cache
def chart_texts(package: str = _REPORT) -> dict[str, dict[str, str]]:
    """Return title, text and variants of the text of a package's charts, by kind of chart."""
    found: dict[str, dict[str, str]] = package_yaml(package, "charts.yaml")
    return found


def page(
    package: str,
    drawn: Iterable[Chart],
    *,
    title: str,
    run: str,
    sentence: str,
    noscript: str,
    headline_class: str = "",
    below: str = "",
    scripts: Sequence[str] = (),
    **parts: str,
) -> str:
    """Return a self-contained page.

    - ``package``: holds ``page.html``, the body, and perhaps ``page.css`` and ``page.js``, which
      follow those of the report.
    - ``drawn``: the charts; those without data are left out.
    - ``scripts``: files of the package with further scripts; none by default.
    """
    charts = [chart for chart in drawn if chart.figure["data"]]
    figures = {chart.id: chart.figure for chart in charts if not chart.is_packed}
    packed = {chart.id: chart.figure for chart in charts if chart.is_packed}
    packages = dict.fromkeys([_REPORT, package])
    return Template(asset(_REPORT, "shell.html")).substitute(
        title=escape(title),
        run=escape(run),
        sentence=escape(sentence),
        headline_class=headline_class,
        below=below,
        noscript=escape(noscript),
        css="\n".join(_asset_if_any(name, "page.css") for name in packages),
        body=Template(asset(package, "page.html")).substitute(parts),
        figures=json_for_script(figures),
        packed=_packed_script(packed) if packed else "",
        plotly=plotly_script() if charts else "",
        script="\n".join(
            [
                *(_asset_if_any(name, "page.js") for name in packages),
                *(asset(package, name) for name in scripts),
            ]
        ),
    )


def _asset_if_any(package: str, name: str) -> str:
    return asset(package, name) if resources.files(package).joinpath(name).is_file() else ""
