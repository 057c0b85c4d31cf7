"""The site: ``python -m sphinx -W --keep-going docs build/site``. Nothing is fetched while it is built."""

import warnings

warnings.filterwarnings("ignore", message="The set_[a-z]* function will be deprecated")  # of matplotlib, in shap

import html  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import tomllib  # noqa: E402
from pathlib import Path  # noqa: E402

import debias  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import llms  # noqa: E402

project = "debias"
author = "The debias developers"
copyright = "The debias developers, BSD-3-Clause"  # noqa: A001 - Sphinx's name for it
folder = os.environ.get("DEBIAS_SITE_VERSION", "dev").removeprefix("v")
"""Folder of this version on the site: "dev", or the version of a release."""
# The theme shows a banner on pages whose version is not that of the newest release, which main may still name.
version = release = debias.__version__ if folder != "dev" or "dev" in debias.__version__ else "dev"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinxext.opengraph",
]
SITE = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
exclude_patterns = ["examples", "_templates", "gallery/**/*.py"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of classes shows them whole

html_theme = "pydata_sphinx_theme"
html_title = f"debias {release}"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"**": ["globaltoc.html"]}
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_center": [],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {"json_url": f"{SITE}/switcher.json", "version_match": folder},
    "check_switcher": False,  # nothing is fetched while the site is built
    "show_version_warning_banner": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}

html_baseurl = f"{SITE}/{folder}/"
ogp_site_url = html_baseurl
html_extra_path = ["pictures/noise.png"]
ogp_image = f"{html_baseurl}noise.png"
ogp_image_alt = "scikit-learn ranks a random row number fifth of twelve features; after debiasing it is eleventh"
ogp_social_cards = {"enable": False}  # one picture for all pages

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}


def description_of(doctree):
    """Return what a page says that it estimates, from the table that it begins with; None if there is no such table."""
    from docutils import nodes

    table = next(iter(doctree.findall(nodes.table)), None)
    if table is None:
        return None
    rows = [[cell.astext() for cell in row.findall(nodes.entry)] for row in table.findall(nodes.row)]
    names = rows[0][1:]
    for what, *cells in rows:
        if what == "Estimates":
            if len(cells) == 1:
                return f"Estimates {cells[0]}."
            return "; ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True)) + "."
    return None


def setup(app):
    """Put recipes that are there into the table of contents, and sentences into the previews of links."""

    def list_recipes(app, page, source):
        if page == "index":
            there = [name for name in llms.RECIPES if name in app.project.docnames]
            source[0] = source[0].replace("\ngate\n", "\n".join(["", "gate", *there, ""]), 1)

    def describe(app, page, template, context, doctree):
        """Describe pages that begin with a table; the preview would begin with its empty cells."""
        described = doctree is not None and description_of(doctree)
        if described:
            context["meta"] = (context["meta"] or {}) | {"og:description": html.escape(described)}
            context["metatags"] += f'<meta name="description" content="{html.escape(described)}" />\n'

    def write_llms(app, exception):
        """Write what language models read, with links into this version of the site."""
        if exception is None and app.builder.name == "html":
            for name, make in (("llms.txt", llms.short), ("llms-full.txt", llms.full)):
                (Path(app.outdir) / name).write_text(make(f"{html_baseurl}{{}}.html"), encoding="utf-8")

    app.connect("source-read", list_recipes)
    app.connect("build-finished", write_llms)
    app.connect("html-page-context", describe, priority=400)  # before sphinxext.opengraph
