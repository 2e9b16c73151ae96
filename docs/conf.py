"""Sphinx settings of the documentation site (`make docs`). The sources are the repository's Markdown pages, as they are."""

import re

from sphinx.application import Sphinx

project = "RackMedic"
html_title = "RackMedic"
html_theme = "furo"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
include_patterns = [
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "tests/bench/REPORT.md",
    "tests/bench/perf/README.md",
]
root_doc = "docs/README"
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
# Code blocks show terminals and templates with placeholders, which no lexer accepts.
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]  # pages outside docs/ need no place in the sidebar

_PART = re.compile(r"^## (.+)$")
_PAGE = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)")


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the index the contents tree that the sidebar shows, from its own lists of links."""
    if page != root_doc:
        return
    parts: list[tuple[str, list[str]]] = []
    for line in source[0].splitlines():
        if heading := _PART.match(line):
            parts.append((heading[1], []))
        elif (link := _PAGE.match(line)) and parts:
            parts[-1][1].append(link[1])
    trees = ("\n".join(("```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```")) for title, pages in parts)
    source[0] += "\n\n" + "\n\n".join(trees) + "\n"


def setup(app: Sphinx) -> None:
    """Register the contents tree."""
    app.connect("source-read", add_contents)
