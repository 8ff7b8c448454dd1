"""The public surface against that of PyFlink 2.3: the same classes, methods, arguments and defaults."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import UnsupportedError

_RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("pyflink_signatures.json").read_text())

#: What is left out, and why. A name stands for a class, `Class.method` for a method, `*.method` for one of any class.
_LEFT_OUT = {
    "*.EPOCH_ORDINAL": "internal",
    "*.to_j_row_kind": "no Java",
    "*.get_java_function": "no Java",
    "*.get_java_memory_size": "no Java",
    "*.get_java_output_tag": "no Java",
    "*.get_java_slot_sharing_group": "no Java",
    "AsyncFunctionDescriptor": "internal",
    "CachedDataStream": "batch only, later",
    "ConfigOptions.OptionBuilder": "not nested here; made by ConfigOptions.key() only",
    "ConfigOptions.TypedConfigOptionBuilder": "not nested here; made by ConfigOptions.key() only",
    "DateTypeInfo.from_internal_type": "its argument has another name",
    "DateTypeInfo.to_internal_type": "its argument has another name",
    "FileCompactStrategy.Builder": "not nested here; made by FileCompactStrategy.builder() only",
    "FileSink.BaseBuilder": "internal",
    "FileSink.get_transformer": "its writers know the buckets themselves",
    "FunctionWrapper": "internal; flinkish.datastream.function_wrappers",
    "InternalIterableAllWindowFunction": "internal",
    "InternalIterableProcessAllWindowFunction": "internal",
    "InternalIterableProcessWindowFunction": "internal",
    "InternalIterableWindowFunction": "internal",
    "InternalProcessAllWindowContext": "internal",
    "InternalProcessWindowContext": "internal",
    "InternalSingleValueAllWindowFunction": "internal",
    "InternalSingleValueProcessAllWindowFunction": "internal",
    "InternalSingleValueProcessWindowFunction": "internal",
    "InternalSingleValueWindowFunction": "internal",
    "InternalWindowFunction": "internal",
    "JavaFunctionWrapper": "no Java",
    "KeyedStream.AccumulateType": "internal",
    "ReduceFunctionWrapper": "internal; flinkish.datastream.function_wrappers",
    "RestartStrategies.FailureRateRestartStrategyConfiguration.__init__": "all arguments are optional there, for a Java object",
    "RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__": "all arguments are optional there, for a Java object",
    "RowDataBulkWriterFactory": "Table API",
    "Sink.__init__": "wraps a Java object there",
    "Source.__init__": "wraps a Java object there",
    "StreamingFileSink.BaseBuilder": "those of FileSink",
    "StreamingFileSink.DefaultBulkFormatBuilder": "those of FileSink",
    "StreamingFileSink.DefaultRowFormatBuilder": "those of FileSink",
    "Min": "internal; the reduce function of a trigger",
    "StreamTransformer": "any object with apply(stream)",
    "SupportsPreprocessing": "any sink with get_transformer()",
    "StreamExecutionEnvironment.__init__": "takes a Java environment there",
    "WindowOperationDescriptor": "internal; flinkish.datastream.operators.WindowConfig",
    "TimeTypeInfo.from_internal_type": "its argument has another name",
    "TimeTypeInfo.to_internal_type": "its argument has another name",
    "TimestampTypeInfo.from_internal_type": "its argument has another name",
    "TimestampTypeInfo.to_internal_type": "its argument has another name",
}

_LATER = ("CachedDataStream",)


def _left_out(qualified_name: str) -> bool:
    names = qualified_name.split(".")
    return any(".".join(names[: end + 1]) in _LEFT_OUT for end in range(len(names))) or f"*.{names[-1]}" in _LEFT_OUT


def _walk(classes: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, recorded in classes.items():
        yield prefix + name, recorded
        yield from _walk(recorded["classes"], f"{prefix}{name}.")


def _cases(package: str) -> list[Any]:
    return [
        pytest.param(module, name, recorded, id=f"{module}.{name}")
        for module, classes in _RECORDED["modules"].items()
        if module.startswith(package)
        for name, recorded in _walk(classes)
        if not _left_out(name)
    ]


def _ours(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module.replace("pyflink", "flinkish", 1))
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("module", "name", "recorded"), _cases("pyflink."))
def test_class_has_the_methods_of_pyflink_with_their_arguments_and_defaults(
    module: str, name: str, recorded: dict[str, Any]
) -> None:
    ours = _ours(module, name)

    differences = [
        difference
        for method, arguments in recorded["methods"].items()
        if not _left_out(f"{name}.{method}")
        for difference in _differences(ours, method, arguments)
    ]
    differences += [
        f"no {constant}"
        for constant in recorded["constants"]
        if not hasattr(ours, constant) and not _left_out(f"{name}.{constant}")
    ]

    assert differences == []


def _differences(ours: Any, method: str, arguments: list[list[Any]]) -> Iterator[str]:
    function = getattr(ours, method, None)
    if function is None or (method == "__init__" and function is object.__init__):
        if method != "__init__" or arguments:
            yield f"no {method}"
        return
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    for index, (argument, default) in enumerate(arguments):
        if index >= len(parameters):
            yield f"{method}: no argument {argument}"
            continue
        parameter = parameters[index]
        shown = ("*" if parameter.kind is parameter.VAR_POSITIONAL else "") + parameter.name
        if shown != argument:
            yield f"{method}: argument {index} is {shown}, not {argument}"
        if default is not None and repr(parameter.default) != default:
            yield f"{method}: {argument}={parameter.default!r}, not {default}"
        if default is None and parameter.default is not parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            # More lenient than PyFlink is fine.
            continue
    for parameter in parameters[len(arguments) :]:
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"{method}: needs {parameter.name}, which PyFlink does not have"


def test_package_exports_what_pyflink_exports() -> None:
    import flinkish.datastream as ours

    exported = set(_RECORDED["exports"]["pyflink.datastream"])
    # Not in PyFlink's __all__ by oversight, but imported from there by everyone.
    exported |= {"ProcessFunction", "CoProcessFunction"}
    missing = sorted(name for name in exported - set(ours.__all__) if name not in ours._LATER)

    assert missing == []


@pytest.mark.parametrize("name", _LATER)
def test_a_class_that_is_not_there_yet_says_so_when_imported(name: str) -> None:
    import flinkish.datastream as ours

    with pytest.raises(UnsupportedError, match=f"{name} is not supported yet"):
        getattr(ours, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import flinkish.datastream as ours

    with pytest.raises(AttributeError, match="Nonsense"):
        ours.Nonsense  # noqa: B018
