"""The API reference covers what users can import, and shows examples as code."""

from __future__ import annotations

import importlib
import inspect

import pytest

from docs.reference import PAGES, fenced

_DOCUMENTED = [module for page in PAGES for module in page.modules]


def test_no_module_is_documented_twice() -> None:
    assert len(_DOCUMENTED) == len(set(_DOCUMENTED))


@pytest.mark.parametrize("name", _DOCUMENTED)
def test_a_documented_module_says_what_it_is_for(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize(
    "package",
    [
        "flinkish.common",
        "flinkish.datastream",
        "flinkish.datastream.connectors",
        "flinkish.datastream.connectors.file_system",
        "flinkish.metrics",
        "flinkish.state",
        "flinkish.testing",
    ],
)
def test_what_a_package_exports_is_documented(package: str) -> None:
    exporting = importlib.import_module(package)
    exports = {name: getattr(exporting, name) for name in exporting.__all__}
    homes = {name: inspect.getmodule(value) for name, value in exports.items() if not _exported(name, value)}
    # Aliases of types have no home; what the test kit takes from the runtime is shown by its name only.
    elsewhere = {"types", "typing", "flinkish.runtime.elements"}
    missing = {name: home.__name__ for name, home in homes.items() if home and home.__name__ not in elsewhere | set(_DOCUMENTED)}

    assert missing == {}


def _exported(name: str, value: object) -> bool:
    """Return whether a documented module shows a name because it exports it, wherever that is defined."""
    modules = map(importlib.import_module, _DOCUMENTED)
    # A module without __all__ exports the names of a star import.
    return any(name in getattr(module, "__all__", vars(module)) and getattr(module, name) is value for module in modules)


def test_a_doctest_becomes_a_block_of_code() -> None:
    docstring = "Adds.\n\nExample:\n\n    >>> 1 + 1\n    2\n\nMore."

    assert fenced(docstring) == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fenced("Adds.\n\n>>> 1 + 1\n2") == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert fenced("No example.") == "No example."
