"""The only module that pickles. It unpickles only data made by this job: commands, frames, logs, programs.

Checkpoints are decoded by type instead (runtime/state/codec.py); pickled values in them are decoded only after their signature
was checked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import io
import pickle
import pickletools
import pkgutil
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cloudpickle

from flinkish.common.errors import ConfigurationError, NotSerializableError

#: `importlib.metadata` takes 0.1 s for it in a worker of Spark, whose path has zip files.
CLOUDPICKLE_VERSION: str = cloudpickle.__version__
_PROTOCOL = 5
#: Class attribute in which msgspec caches data about a class that it has decoded; it cannot be pickled.
_MSGSPEC_CACHE = "__msgspec_cache__"


class _ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles functions and classes of the job script by value, without the caches that libraries have added to them.

    cloudpickle alone fails for a class that msgspec has decoded, for `functools.cached_property` (a lock before Python 3.12) and
    for `functools.singledispatch` (weak references), and pickles functions with `functools.lru_cache` by reference. Since 3.1.3
    it drops the file names of functions, which tracebacks show.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, functools._lru_cache_wrapper):
            if _can_be_imported(obj):
                return NotImplemented
            return _make_cached, (obj.__wrapped__, obj.cache_parameters())
        if obj.__class__ is functools.cached_property:
            return _make_cached_property, (obj.func, obj.attrname)
        if obj.__class__ is weakref.WeakKeyDictionary:
            return weakref.WeakKeyDictionary, (dict(obj),)
        if obj.__class__ is types.CodeType:
            _, arguments = self.dispatch_table[types.CodeType](obj)
            return _make_code, (arguments, obj.co_filename)
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) > 2:
            if hasattr(obj, "__struct_config__"):
                # cloudpickle would make a class without fields.
                raise pickle.PicklingError(
                    f"{obj.__qualname__} is an msgspec.Struct of the job script; make it a dataclass, or define it in a module"
                )
            # By value: (function, arguments, (attributes, slots), ...), where the attributes are a copy.
            attributes = reduced[2][0]
            attributes.pop(_MSGSPEC_CACHE, None)
            if dataclasses.is_dataclass(obj) or typing.is_typeddict(obj) or hasattr(obj, "_fields"):
                attributes["__annotations__"] = _evaluated(obj)
        return reduced


def _evaluated(cls: type) -> dict[str, Any]:
    """Return a class's annotations, with text evaluated where possible.

    msgspec reads them when it decodes the class; in another process the names of the job script are unknown.
    """
    annotations = inspect.get_annotations(cls)
    for name, annotation in annotations.items():
        alone = type(cls.__name__, (), {"__module__": cls.__module__, "__annotations__": {name: annotation}})
        with contextlib.suppress(Exception):
            annotations.update(typing.get_type_hints(alone, localns=dict(vars(cls)), include_extras=True))
    return annotations


def _can_be_imported(function: Any) -> bool:
    found: Any = None if function.__module__ == "__main__" else sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _make_cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _make_code(arguments: tuple[Any, ...], file: str) -> types.CodeType:
    return types.CodeType(*arguments).replace(co_filename=file)


def _make_cached_property(function: Callable[[Any], Any], name: str | None) -> functools.cached_property[Any]:
    made = functools.cached_property(function)
    if name is not None:
        made.__set_name__(object, name)
    return made


def _by_value(value: Any) -> bytes:
    buffer = io.BytesIO()
    _ByValuePickler(buffer).dump(value)
    return buffer.getvalue()


def dumps(value: Any) -> bytes:
    """Pickle a value; use cloudpickle (4x slower) for values that plain pickle refuses, such as a lambda in a record."""
    try:
        return pickle.dumps(value, _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _by_value(value)


def dumps_by_value(value: Any) -> bytes:
    """Pickle a value for another job of this program, whose processes may not know the classes of the job script."""
    data = dumps(value)
    if b"__main__" in data:
        data = _by_value(value)
    return data


def loads(data: bytes) -> Any:
    """Unpickle bytes that `dumps` made in this job."""
    return pickle.loads(data)


#: The full names that classes of pickled state had once, with their names now; all jobs of a process share them.
_aliases: dict[str, str] = {}


def use_aliases(aliases: Mapping[str, str] | None) -> None:
    """Let `loads_state` take classes that were renamed or moved for those that they are now."""
    _aliases.update(aliases or {})


class _StateUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _aliases.get(f"{module}.{name}")
        if known is None:
            return super().find_class(module, name)
        try:
            return pkgutil.resolve_name(known)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"execution.state-recovery.class-aliases: {known!r}, the new name of {module}.{name}, cannot be imported: {error}"
            ) from error


def loads_state(data: bytes) -> Any:
    """Unpickle a value of state, which an earlier version of the program may have pickled."""
    # The class in Python takes twice as long.
    return _StateUnpickler(io.BytesIO(data)).load() if _aliases else pickle.loads(data)


def names_in(data: bytes) -> list[str]:
    """Return the full names of the classes and functions that a pickle refers to, in order, without loading anything."""
    names: dict[str, None] = {}
    memo: dict[int, str] = {}
    texts: list[str] = []
    operations: Iterable[tuple[pickletools.OpcodeInfo, Any, int | None]] = pickletools.genops(data)
    for opcode, argument, _ in operations:
        match opcode.name:
            case "SHORT_BINUNICODE" | "BINUNICODE" | "BINUNICODE8" | "UNICODE":
                texts.append(argument)
                continue
            case "MEMOIZE":
                memo[len(memo)] = texts[-1] if texts else ""
                continue
            case "BINGET" | "LONG_BINGET":
                texts.append(memo.get(argument, ""))
                continue
            case "STACK_GLOBAL":
                names[".".join(texts[-2:])] = None
        texts.append("")
    return list(names)


class _ProgramPickler(_ByValuePickler):
    """Collects the classes of the job script that are pickled by value, so that the receiver can register them in `__main__`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.main_classes: dict[str, type] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ == "__main__" and "<locals>" not in obj.__qualname__:
            self.main_classes[obj.__qualname__] = obj
        return super().reducer_override(obj)


def dump_program(program: Any) -> bytes:
    """Pickle a program with its functions by value, for `load_program` in another process."""
    buffer = io.BytesIO()
    pickler = _ProgramPickler(buffer)
    pickler.dump(program)
    return _by_value((pickler.main_classes, program))


def load_program(data: bytes) -> Any:
    """Unpickle a program and register the job script's classes in this process's `__main__`.

    Plain pickle finds a class by module and name; the script's classes have the module `__main__`, which is another module here.
    """
    classes, program = pickle.loads(data)
    main = sys.modules["__main__"]
    for qualified_name, cls in classes.items():
        if "." not in qualified_name:
            setattr(main, qualified_name, cls)
    return program


def copies(program: Any, count: int) -> list[Any]:
    """Return copies of a program that share no function objects, for slots that run in this process."""
    data = _by_value(program)
    return [pickle.loads(data) for _ in range(count)]


def check_serializable(value: Any, what: str) -> None:
    """Raise NotSerializableError, naming the attribute at fault, unless `value` can be sent to the tasks.

    `what` names the value in the message, such as "the MapFunction of map()".
    """
    _pickled(value, what)


def own_copy(value: Any, what: str) -> Any:
    """Return a copy of the current `value` that shares no mutable objects with it, as Flink serializes each operator by itself.

    Raises NotSerializableError as `check_serializable` does.
    """
    return pickle.loads(_pickled(value, what))


def _pickled(value: Any, what: str) -> bytes:
    try:
        return _by_value(value)
    except Exception as error:
        raise _not_serializable(value, what, error) from error


def _not_serializable(value: Any, what: str, error: BaseException) -> NotSerializableError:
    path, culprit = _find_culprit(value)
    hint = "create it in open(), which runs in the task, so that neither the constructor nor a closure holds it."
    if _of_spark(culprit):
        hint = (
            "tasks have no SparkSession, SparkContext or DataFrame: read the DataFrame with from_data_frame(df) and connect the "
            "streams, or collect() its rows into a dict before the job and use that."
        )
        error = TypeError("it belongs to Spark's driver")
    where = f"its attribute `{path}` ({_describe(culprit)})" if path else _describe(value)
    return NotSerializableError(
        f"{what} cannot be pickled because of {where}: {type(error).__name__}: {error}",
        hint=hint,
    )


def _of_spark(value: Any) -> bool:
    return type(value).__module__.startswith(("pyspark.sql.", "pyspark.core."))


def _describe(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        return f"function {value.__module__}.{value.__qualname__} line {value.__code__.co_firstlineno}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    return f"an instance of {type(value).__module__}.{type(value).__qualname__}"


def _pickling_error(value: Any) -> BaseException | None:
    try:
        _by_value(value)
    except Exception as error:
        return error
    return None


def _find_culprit(value: Any, depth: int = 6) -> tuple[str, Any]:
    """Search attributes, closures and containers for the innermost part that cannot be pickled."""
    for name, part in () if _of_spark(value) else _parts(value):
        if depth and _pickling_error(part) is not None:
            rest, culprit = _find_culprit(part, depth - 1)
            return f"{name}{'.' if rest and not rest.startswith('[') else ''}{rest}", culprit
    return "", value


def _parts(value: Any) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = []
    if isinstance(value, types.MethodType):
        parts.append(("self", value.__self__))
    if isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            try:
                parts.append((name, cell.cell_contents))
            except ValueError:  # a variable of the enclosing function without a value yet
                continue
        used = set(value.__code__.co_names)
        if value.__module__ == "__main__":
            parts.extend((name, part) for name, part in value.__globals__.items() if name in used)
    elif isinstance(value, dict):
        parts.extend((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        parts.extend((f"[{index}]", part) for index, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts.extend((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
        parts.extend(vars(value).items())
    return parts
