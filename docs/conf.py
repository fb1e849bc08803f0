"""How the documentation is built: offline, from packages alone."""

import re
from importlib.metadata import version as installed_version
from pathlib import Path

project = "confrere"
copyright = "The confrere authors"  # noqa: A001
version = release = installed_version("confrere")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
nitpicky = False
# Attributes of one name in several classes ("guarantee") are not references to each other.
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
# Every public class states its price in a section of its own.
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"/\d\d_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 10,
}

html_theme = "pydata_sphinx_theme"
html_title = "confrere"
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
# Pages without pages below them need no section navigation.
_ALONE = ("api", *(page.stem for page in Path(__file__).parent.glob("*.md")))
html_sidebars = {page: [] for page in _ALONE}
html_show_sourcelink = False


def true_names(app, what, name, obj, options, lines):  # noqa: ARG001
    """Keep the underscore that ends a fitted attribute's name: it is no link."""
    lines[:] = [re.sub(r"^(:(?:ivar|vartype) \w+)_:", r"\1\\_:", line) for line in lines]


def setup(app):
    """Register what the pages need."""
    app.connect("autodoc-process-docstring", true_names, priority=900)
