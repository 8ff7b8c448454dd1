"""Hooks of MkDocs, which add the pages generated from the code and the API reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs import configuration_page, metrics_page, reference, support_page

#: Functions that return the Markdown of generated pages, by the path of the page.
_MADE: Final[dict[str, Callable[[], str]]] = {
    "configuration.md": configuration_page.markdown,
    "metrics.md": metrics_page.markdown,
    "support.md": support_page.markdown,
    **{page.path: page.markdown for page in reference.PAGES},
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the API reference at the end of the navigation."""
    pages: list[dict[str, Any]] = [{page.title: page.path} for page in reference.PAGES]
    nav = [entry for entry in config.nav or [] if reference.TITLE not in entry]
    config.nav = [*nav, {reference.TITLE: pages}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, make in _MADE.items():
        files.append(File.generated(config, path, content=make()))
    return files
