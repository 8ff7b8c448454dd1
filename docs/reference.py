"""The API reference: the modules on each page. Its text comes from the docstrings."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import Final

TITLE: Final = "API reference"

_PROMPT = re.compile(r"\s*>>>")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the reference, with its modules."""

    path: str
    title: str
    modules: tuple[str, ...]
    #: Whether classes show the members of their bases, some of which are private.
    inherited: bool = False

    def markdown(self) -> str:
        """Return the page, in which mkdocstrings inserts the docstrings."""
        return "\n\n".join([f"# {self.title}", *(self._section(module) for module in self.modules)]) + "\n"

    def _section(self, module: str) -> str:
        options = {"inherited_members": "true"} if self.inherited else {}
        if len(self.modules) > 1:
            options["heading_level"] = "3"
        shown = f"::: {module}"
        if options:
            shown += "\n    options:" + "".join(f"\n      {name}: {value}" for name, value in options.items())
        # A single module needs no heading of its own; its docstring is the introduction of the page.
        return shown if len(self.modules) == 1 else f"## `{module}` {{ #module-{module.replace('.', '-')} }}\n\n{shown}"


def _page(name: str, title: str, *modules: str, inherited: bool = False) -> Page:
    return Page(f"reference/{name}.md", title, tuple(f"flinkish.{module}" for module in modules), inherited)


def _homes(package: str) -> list[str]:
    """Return the modules of a package that define the names it exports, relative to it; other packages are left out."""
    exporting = importlib.import_module(f"flinkish.{package}")
    homes = {getattr(getattr(exporting, name), "__module__", "") for name in exporting.__all__}
    return sorted(home.removeprefix("flinkish.") for home in homes if home.startswith(f"flinkish.{package}."))


def _members(package: str) -> list[str]:
    """Return the public modules of a package."""
    path = importlib.import_module(f"flinkish.{package}").__path__
    return [f"{package}.{module.name}" for module in pkgutil.iter_modules(path) if not module.name.startswith("_")]


PAGES: Final = (
    _page("environment", "Environment", "datastream.stream_execution_environment", "datastream.execution_mode"),
    _page(
        "streams",
        "Streams",
        "datastream.data_stream",
        "datastream.keyed_stream",
        "datastream.connected_streams",
        "datastream.windowed_stream",
        "datastream.window_join",
        "datastream.interval_join",
        "datastream.cached_stream",
        "datastream.async_data_stream",
        "datastream.closeable_iterator",
        "datastream.output_tag",
        "datastream.slot_sharing_group",
        inherited=True,
    ),
    _page(
        "functions",
        "Functions",
        "datastream.functions",
        "datastream.aggregates",
        "datastream.checkpoint",
        "datastream.timerservice",
        "datastream.time_domain",
        "datastream.async_retry_strategies",
        "datastream.async_retry_predicates",
    ),
    _page("state", "State", "datastream.state", inherited=True),
    _page(
        "windows",
        "Windows",
        "datastream.window.assigners",
        "datastream.window.triggers",
        "datastream.window.windows",
        "datastream.evictors",
        inherited=True,
    ),
    _page(
        "checkpoints",
        "Checkpoints and state backends",
        "datastream.checkpoint_config",
        "datastream.checkpointing_mode",
        "datastream.checkpoint_storage",
        "datastream.externalized_checkpoint_retention",
        "datastream.state_backend",
    ),
    _page("savepoints", "Savepoints as data", *_homes("state")),
    _page(
        "connectors",
        "Sources and sinks",
        "datastream.connectors.base",
        "datastream.connectors.number_seq",
        "datastream.connectors.hybrid_source",
        "datastream.connectors.batch_generator",
        "datastream.connectors.datagen",
        "datastream.connectors.socket",
        "datastream.connectors.delta.sink",
        "datastream.connectors.delta.source",
        "datastream.connectors.jdbc",
        "datastream.connectors.data_frame_sink",
        "datastream.connectors.record_errors",
    ),
    _page(
        "kafka",
        "Kafka",
        "datastream.connectors.kafka.source",
        "datastream.connectors.kafka.sink",
        "datastream.connectors.kafka.offsets",
        "datastream.connectors.kafka.serialization",
        "datastream.connectors.kafka.legacy",
    ),
    _page(
        "files",
        "Files",
        "datastream.connectors.file_system.source",
        "datastream.connectors.file_system.formats",
        "datastream.connectors.file_system.csv_format",
        "datastream.connectors.file_system.json_format",
        "datastream.connectors.file_system.parquet_format",
        "datastream.connectors.file_system.enumerator",
        "datastream.connectors.file_system.sink",
        "datastream.connectors.file_system.writer_factories",
        "datastream.connectors.file_system.policies",
        "datastream.connectors.file_system.compaction",
    ),
    _page("formats", "Formats", *_members("datastream.formats"), "table.types"),
    _page(
        "types",
        "Types and records",
        "common.typeinfo",
        "common.types",
        "common.time",
        "common.serialization",
        "common.serializer",
        inherited=True,
    ),
    _page("watermarks", "Timestamps and watermarks", "common.watermark_strategy"),
    _page(
        "configuration",
        "Configuration",
        "common.configuration",
        "common.config_options",
        "common.execution_config",
        "common.restart_strategy",
        "common.input_dependency_constraint",
    ),
    _page(
        "jobs",
        "Jobs",
        "common.job_client",
        "common.job_execution_result",
        "common.job_status",
        "common.job_id",
        "common.completable_future",
    ),
    _page("errors", "Errors", "common.errors"),
    _page("metrics", "Metrics", "metrics.metricbase", "metrics.registry"),
    _page("testing", "Test kit", *_homes("testing")),
)


def fenced(docstring: str) -> str:
    """Return a docstring with a fence around each doctest (from its first prompt to the next empty line), without `Example:`."""
    lines: list[str] = []
    inside = False
    indent = 0
    for line in docstring.splitlines():
        if not inside and _PROMPT.match(line):
            inside = True
            indent = len(line) - len(line.lstrip())
            while lines and (not lines[-1].strip() or lines[-1].strip() == "Example:"):
                lines.pop()
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line[indent:] if inside else line)
    if inside:
        lines.append("```")
    return "\n".join(lines)
