"""The documentation site: ``python -m sphinx -W --keep-going docs build/site``. Nothing is fetched while it is built."""

import os
import warnings

os.environ.setdefault("NUMBA_NUM_THREADS", "2")
warnings.filterwarnings("ignore", message="The set_[a-z]* function will be deprecated")  # of matplotlib, in shap

import debias  # noqa: E402

project = "debias"
author = "The debias developers"
copyright = "The debias developers, BSD-3-Clause"  # noqa: A001 - Sphinx's name for it
version = release = debias.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.json", "examples", "pictures/*.py"]
suppress_warnings = ["toc.empty_glob"]  # recipes of parts that are not there
nitpicky = False
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = f"debias {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = []
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
}
