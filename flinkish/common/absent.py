"""What PyFlink has and flinkish has not: modules, names of modules, members of classes.

Asking for one raises an error that says why, and what to use instead, and that is also what Python raises for something that does
not exist. So `hasattr`, completion, `inspect`, pytest's collection and `try: ... except ImportError` work as for any other name.
Nothing is refused before a program asks for it. Which names there are, with their reasons, is in `absent_names`.
"""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, MappingProxyType
from typing import Any, Final, Literal

from flinkish.common.errors import AbsentImportError, AbsentMemberError, AbsentModuleError

_PACKAGE: Final = "flinkish."


@dataclass(frozen=True, slots=True)
class Absence:
    """Why something of PyFlink is not there, as a clause, and what to use instead, as a clause in the imperative.

    Kinds: `unsupported` needs Flink's JVM or has no place here; `later` will come; `internal` is public in PyFlink by its name
    only; `gone` was removed from PyFlink before 2.3.
    """

    kind: Literal["unsupported", "later", "internal", "gone"]
    reason: str
    see: str


def absence_of(qualified: str) -> Absence | None:
    """Return why a name is absent, by its dotted path below `flinkish`; a module's reason holds for all that is in it."""
    # The table is made of what is declared here.
    from flinkish.common.absent_names import ABSENT

    while qualified:
        if qualified in ABSENT:
            return ABSENT[qualified]
        qualified = qualified.rpartition(".")[0]
    return None


def names_of(module: str, homes: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which is asked for names that are not in it; see `find_name`."""
    return lambda name: find_name(module, name, homes=homes, caller=sys._getframe(1))


def find_name(module: str, name: str, *, homes: Mapping[str, str] = MappingProxyType({}), caller: FrameType) -> Any:
    """Load a name that PyFlink has in a module and flinkish in another, its home; raise an error for all other names.

    PyFlink's absent names raise AbsentMemberError, and AbsentImportError if the caller is at `from module import name`; others
    raise AttributeError.
    """
    if name in homes:
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value
    # Python itself, pytest and notebooks probe for names that begin with an underscore.
    absence = None if name.startswith("_") else absence_of(f"{module}.{name}".removeprefix(_PACKAGE))
    if absence is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
    error = AbsentImportError if _imports_from(caller) else AbsentMemberError
    raise error(_message(f"{module}.{name}", absence), hint=_hint(absence))


def refuse_module(module: str) -> None:
    """Raise AbsentModuleError for a module of PyFlink that flinkish has not; called for modules that nobody has found."""
    absence = absence_of(module.removeprefix(_PACKAGE))
    # The parent is there, and refuses the name itself where it is none of a module.
    if absence is not None and _is_module(module.removeprefix(_PACKAGE)):
        raise AbsentModuleError(_message(f"module {module}", absence), hint=_hint(absence), name=module)


class AbsentMember:
    """A member of a PyFlink class that the class has not here: raises AbsentMemberError on access.

    It stands in the class, not behind a `__getattr__` of it, which would slow every access to an attribute.
    """

    def __init__(self, absence: Absence) -> None:
        self.absence = absence

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Absence:
        # Never returns; to a type checker NoReturn would make all code after it unreachable, and so unchecked.
        text = _message(f"{owner.__qualname__}.{self._name}", self.absence)
        raise AbsentMemberError(text, hint=_hint(self.absence))


def _is_module(qualified: str) -> bool:
    from flinkish.common.absent_names import MODULES

    return any(qualified == module or qualified.startswith(f"{module}.") for module in MODULES)


def _message(name: str, absence: Absence) -> str:
    gone = "is not supported, and not in Flink 2" if absence.kind == "gone" else "is not supported"
    return f"{name} {gone}: {absence.reason}."


def _hint(absence: Absence) -> str:
    return f"{absence.see}."


def _imports_from(frame: FrameType) -> bool:
    """Return whether a frame is at the instruction of `from module import name`.

    Python takes an AttributeError there for a name that does not exist, and raises an ImportError of its own, without the reason.
    """
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
