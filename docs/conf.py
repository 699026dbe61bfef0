"""How Sphinx builds the site; ``scripts/docs.sh`` does it, and a check does it strictly."""

from __future__ import annotations

import flowcontrol

project = "flowcontrol"
author = "the flowcontrol authors"
version = release = flowcontrol.__version__
project_copyright = f"2026, {author}. Licence: Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
nitpicky = True
"""Whatever is referred to has to be there: the build needs no network, so nothing outside is."""
nitpick_ignore_regex = [
    # The type of an attribute is words: "mapping of str to pyarrow.Table".
    ("py:class", r"(?!flowcontrol\.).*"),
    # What is not public has no page.
    (
        "py:.*",
        r"flowcontrol\.(?:experiments|ledger|memory|kernel|control|results|records|report|virtual)\..*",
    ),
]

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"
"""Docstrings say types with units and ranges; hints would say less of them a second time."""

napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"flowcontrol {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
