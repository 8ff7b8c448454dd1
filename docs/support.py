"""The comparison of PyFlink's public DataStream API with flinkish, name by name.

PyFlink's API was recorded from its sources (tests/unit/datastream/record_signatures.py); ours is inspected. For each name that is
missing or has another signature, reasons.py must give a reason; otherwise tests/unit/docs/test_support.py fails.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from docs.reasons import REASONS, Reason, recorded
from flinkish.common.absent import AbsentMember
from flinkish.common.errors import UnsupportedError

#: The note is the text after these words, to the end of the paragraph.
_DIFFERS = re.compile(r"(?:Differs from Flink: |\A(?=Accepted))(.*?)(?:\n\s*\n|\Z)", re.DOTALL)


class Status(Enum):
    """How far flinkish supports a name of PyFlink."""

    SUPPORTED = "supported"
    DIFFERS = "differs"
    UNSUPPORTED = "unsupported"
    LATER = "not yet"
    INTERNAL = "internal"
    #: Missing or different without a reason: never in a released table.
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A class, function, method or constant of PyFlink with its status; `note` says how it differs, or why it is absent."""

    module: str
    #: The class of a method, constant or nested class, with dots; empty for other names.
    owner: str
    name: str
    status: Status
    note: str = ""
    is_class: bool = False

    @property
    def qualified(self) -> str:
        """The name within its module."""
        return f"{self.owner}.{self.name}" if self.owner else self.name


def compare(reasons: Mapping[str, Reason] = REASONS) -> list[Name]:
    """Return all names of PyFlink's public API, in the order of modules and classes."""
    known = recorded()
    names: list[Name] = []
    for module, classes in sorted(known["modules"].items()):
        for class_name, described in walk(classes):
            names += compare_class(module, class_name, described, reasons)
        for function, arguments in known["functions"].get(module, {}).items():
            ours = find(module)
            problems = list(differences(ours, function, arguments))
            names.append(_name(module, "", function, problems, getattr(ours, function, None), reasons))
    return names


def walk(classes: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield classes and their nested classes, by qualified name."""
    for name, described in classes.items():
        yield prefix + name, described
        yield from walk(described["classes"], f"{prefix}{name}.")


def compare_class(
    module: str, class_name: str, described: Mapping[str, Any], reasons: Mapping[str, Reason] = REASONS
) -> list[Name]:
    """Return the status of a class of PyFlink, its methods and its constants."""
    owner, _, last = class_name.rpartition(".")
    ours = find(module, class_name)
    absent = _absent_member(find(module, owner), last)
    problems = [] if ours is not None else [f"no {class_name}"]
    itself = replace(_name(module, owner, last, problems, absent or ours, reasons), is_class=True)
    if ours is None or itself.status not in (Status.SUPPORTED, Status.DIFFERS):
        # All members have the status of the class.
        members = (*described["methods"], *described["constants"])
        return [itself, *(replace(itself, owner=class_name, name=member, is_class=False) for member in members)]
    names = [itself]
    for method, arguments in described["methods"].items():
        problems = list(differences(ours, method, arguments))
        names.append(_name(module, class_name, method, problems, _member(ours, method), reasons))
    for constant in described["constants"]:
        problems = [] if hasattr(ours, constant) else [f"no {constant}"]
        names.append(_name(module, class_name, constant, problems, _absent_member(ours, constant), reasons))
    return names


def _name(module: str, owner: str, name: str, problems: Sequence[str], ours: Any, reasons: Mapping[str, Reason]) -> Name:
    status, note = Status.SUPPORTED, ""
    reason = next((reasons[key] for key in reason_keys(module, owner, name) if key in reasons), None)
    if reason is not None:
        status, note = Status[reason.kind.name], reason.text
    elif isinstance(ours, AbsentMember):
        status, note = Status[ours.absence.kind.upper()], ours.absence.reason
    elif problems:
        status, note = Status.UNEXPLAINED, "; ".join(problems)
    else:
        note = difference_of(ours) or ""
        status = Status.DIFFERS if note else Status.SUPPORTED
    return Name(module=module, owner=owner, name=name, status=status, note=note)


def _absent_member(owner: Any, name: str) -> AbsentMember | None:
    """Return the object that refuses a member of a class, without calling it as an access would."""
    found = inspect.getattr_static(owner, name, None)
    return found if isinstance(found, AbsentMember) else None


def _member(owner: Any, name: str) -> Any:
    return _absent_member(owner, name) or getattr(owner, name, None)


def reason_keys(module: str, owner: str, name: str) -> tuple[str, ...]:
    """Return the possible keys of a reason for a name, the most specific first."""
    enclosing = owner.split(".") if owner else []
    # A nested class has the status of the classes around it; other members of a class are checked by themselves.
    outer = [".".join(enclosing[:end]) for end in range(len(enclosing), 0, -1)] if find(module, owner) is None else []
    return f"{owner}.{name}" if owner else name, *([f"*.{name}"] if owner else []), *outer, module.removeprefix("pyflink.")


def difference_of(ours: Any) -> str | None:
    """Return the text of a docstring after "Differs from Flink:", or the note that a setting is only accepted; else None."""
    text = ours.__doc__ if inspect.isclass(ours) else inspect.getdoc(ours) if callable(ours) else None
    match = _DIFFERS.search(inspect.cleandoc(text or ""))
    if match is None:
        return None
    note = " ".join(match[1].split()).removesuffix(".")
    return note[0].lower() + note[1:] if note.startswith("Accepted") else note


def differences(ours: Any, method: str, arguments: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield how a method of a class, or a function of a module, differs in its signature from what was recorded of PyFlink.

    Additional optional arguments are no difference, nor are defaults where PyFlink has none.
    """
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
    for parameter in parameters[len(arguments) :]:
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"{method}: needs {parameter.name}, which PyFlink does not have"


def find(module: str, qualified: str = "") -> Any:
    """Return flinkish's object for a module, class or method of PyFlink, None if there is none."""
    try:
        found: Any = importlib.import_module(module.replace("pyflink", "flinkish", 1))
        for part in filter(None, qualified.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError, UnsupportedError):
        return None
    return found
