"""Writes pyflink_signatures.json from an installed PyFlink: `python record_signatures.py <site-packages>`.

Reads the sources without importing them. Kept are names, arguments and defaults of what is public; nothing else.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

MODULES = (
    "pyflink.common.completable_future",
    "pyflink.common.config_options",
    "pyflink.common.configuration",
    "pyflink.common.execution_config",
    "pyflink.common.input_dependency_constraint",
    "pyflink.common.io",
    "pyflink.common.job_client",
    "pyflink.common.job_execution_result",
    "pyflink.common.job_id",
    "pyflink.common.job_status",
    "pyflink.common.restart_strategy",
    "pyflink.common.serialization",
    "pyflink.common.serializer",
    "pyflink.common.time",
    "pyflink.common.typeinfo",
    "pyflink.common.types",
    "pyflink.common.watermark_strategy",
    "pyflink.datastream.async_data_stream",
    "pyflink.datastream.async_retry_predicates",
    "pyflink.datastream.async_retry_strategies",
    "pyflink.datastream.checkpoint_config",
    "pyflink.datastream.checkpoint_storage",
    "pyflink.datastream.checkpointing_mode",
    "pyflink.datastream.connectors.base",
    "pyflink.datastream.connectors.cassandra",
    "pyflink.datastream.connectors.dynamic_kafka",
    "pyflink.datastream.connectors.elasticsearch",
    "pyflink.datastream.connectors.file_system",
    "pyflink.datastream.connectors.hybrid_source",
    "pyflink.datastream.connectors.jdbc",
    "pyflink.datastream.connectors.kafka",
    "pyflink.datastream.connectors.kinesis",
    "pyflink.datastream.connectors.number_seq",
    "pyflink.datastream.connectors.pulsar",
    "pyflink.datastream.connectors.rabbitmq",
    "pyflink.datastream.data_stream",
    "pyflink.datastream.execution_mode",
    "pyflink.datastream.externalized_checkpoint_retention",
    "pyflink.datastream.formats.avro",
    "pyflink.datastream.formats.csv",
    "pyflink.datastream.formats.json",
    "pyflink.datastream.formats.orc",
    "pyflink.datastream.formats.parquet",
    "pyflink.datastream.functions",
    "pyflink.datastream.output_tag",
    "pyflink.datastream.slot_sharing_group",
    "pyflink.datastream.state",
    "pyflink.datastream.state_backend",
    "pyflink.datastream.stream_execution_environment",
    "pyflink.datastream.time_domain",
    "pyflink.datastream.timerservice",
    "pyflink.datastream.window",
    "pyflink.metrics.metricbase",
)
PACKAGES = ("pyflink.common", "pyflink.datastream", "pyflink.metrics")


def main(site_packages: Path) -> None:
    recorded = {
        "exports": {package: _exports(_parse(site_packages, package)) for package in PACKAGES},
        "modules": {module: _classes(_parse(site_packages, module).body) for module in MODULES},
        "functions": {module: functions for module in MODULES if (functions := _functions(_parse(site_packages, module).body))},
    }
    target = Path(__file__).with_name("pyflink_signatures.json")
    target.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


def _parse(site_packages: Path, module: str) -> ast.Module:
    path = site_packages.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def _exports(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets):
            return sorted(set(ast.literal_eval(node.value)))
    return []


def _classes(body: list[ast.stmt]) -> dict[str, Any]:
    """Describe public classes: constants by name, nested classes, methods as lists of [argument, default or null for none]."""
    classes: dict[str, Any] = {}
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = {
                item.name: _arguments(item)
                for item in node.body
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_public(item)
            }
            constants = [
                name.id
                for item in node.body
                if isinstance(item, ast.Assign)
                for name in item.targets
                if isinstance(name, ast.Name) and (name.id.isupper() or (_is_enum(node) and not name.id.startswith("_")))
            ]
            classes[node.name] = {"methods": methods, "constants": constants, "classes": _classes(node.body)}
    return classes


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("Enum", "enum.Enum") for base in node.bases)


def _functions(body: list[ast.stmt]) -> dict[str, Any]:
    """Describe public functions of a module."""
    return {node.name: _arguments(node) for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


def _is_public(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if function.name == "__init__":
        # A constructor that needs a Java object is not for users.
        required = function.args.args[1 : len(function.args.args) - len(function.args.defaults)]
        return not any(argument.arg.startswith("j_") for argument in required)
    return not function.name.startswith("_")


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[list[str | None]]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaults = [None] * (len(names) - len(arguments.defaults)) + [_text(default) for default in arguments.defaults]
    result: list[list[str | None]] = [[name, default] for name, default in zip(names, defaults, strict=True)]
    if result and names[0] in ("self", "cls"):
        result = result[1:]
    if arguments.vararg:
        result.append(["*" + arguments.vararg.arg, None])
    # What only wraps a Java object has no meaning here; before others it counts for their positions.
    while result and str(result[-1][0]).startswith("j_"):
        result.pop()
    return result


def _text(default: ast.expr) -> str:
    """Return a default as `repr` shows its value; sums and products of numbers are worked out, names stay."""
    text = ast.unparse(default)
    return text if any(isinstance(node, (ast.Name, ast.Call)) for node in ast.walk(default)) else repr(eval(text, {}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
