"""Circles of imports stay small: who reads one module must not need ten others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import flinkish

ROOT = Path(flinkish.__file__).parent

#: Larger circles that are there on purpose: a class has a method that returns its subclass, as in PyFlink.
ALLOWED = {
    # A stream has a method for each kind of stream that it can become: datastream/DESIGN.md.
    "flinkish.datastream": {
        "cached_stream",
        "connected_streams",
        "data_stream",
        "interval_join",
        "keyed_stream",
        "stream_execution_environment",
        "window_join",
        "windowed_stream",
    },
    # StreamFormat and BulkFormat have a method for each format: datastream/connectors/DESIGN.md.
    "flinkish.datastream.connectors.file_system": {
        "avro_format",
        "csv_format",
        "formats",
        "json_format",
        "parquet_format",
    },
}


def _modules() -> dict[str, Path]:
    names = {path: ".".join(("flinkish", *path.relative_to(ROOT).with_suffix("").parts)) for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Return all statements, with those inside of others; expressions, which are most of a tree, have none."""
    for each in body:
        yield each
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _statements(getattr(each, name, ()))


def _imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Return the modules that a file imports anywhere: for types and inside functions, too."""
    for node in _statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules else node.module


def _circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that reach each other."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for each in graph[waiting.pop()] - found:
                found.add(each)
                waiting.append(each)
        return found

    reach = {name: reached(name) for name in graph}
    circles = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return [set(circle) for circle in circles if circle]


def test_a_circle_of_imports_has_at_most_three_modules_unless_its_reason_is_known() -> None:
    modules = _modules()
    graph = {name: {each for each in _imported(path, modules) if each in modules} - {name} for name, path in modules.items()}
    circles = _circles(graph)

    allowed = [sorted(f"{package}.{name}" for name in names) for package, names in ALLOWED.items()]

    assert sorted(sorted(circle) for circle in circles if len(circle) > 3) == allowed
