"""The refusal of PyFlink names that flinkish does not have: modules, names in modules and members of classes.

Access to such a name raises an error that says why it is absent and what to use instead. The error is also an AttributeError or
ImportError, as for any missing name, so `hasattr`, completion, `inspect`, pytest's collection and `try: ... except ImportError`
work as usual. Nothing is refused before a program uses the name. `absent_names` lists the names with their reasons.
"""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, MappingProxyType
from typing import Any, Final, Literal

from flinkish.common.errors import AbsentImportError, AbsentMemberError, AbsentModuleError, UnsupportedError

_PACKAGE: Final = "flinkish."


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a PyFlink name is absent (a clause), and what to use instead (a clause in the imperative).

    Kinds: `unsupported` names need Flink's JVM or have no counterpart in flinkish; `later` ones are planned; `internal` ones are
    public in PyFlink by their spelling only; `gone` ones were removed from PyFlink before 2.3.
    """

    kind: Literal["unsupported", "later", "internal", "gone"]
    reason: str
    see: str


def absence_of(qualified: str) -> Absence | None:
    """Return why the name with this dotted path below `flinkish` is absent, None if no reason is known.

    A module's reason holds for all names in the module.
    """
    # Imported late: the table is built from the classes of this module.
    from flinkish.common.absent_names import ABSENT

    while qualified:
        if qualified in ABSENT:
            return ABSENT[qualified]
        qualified = qualified.rpartition(".")[0]
    return None


def add_getattr(module: str, homes: Mapping[str, str] = MappingProxyType({})) -> None:
    """Give a module the `__getattr__` that Python calls for names that the module does not have; see `find_name`.

    It is not in the text of the module, because type checkers would accept any name of such a module.
    """
    vars(sys.modules[module])["__getattr__"] = lambda name: find_name(module, name, homes=homes, caller=sys._getframe(1))


def find_name(module: str, name: str, *, homes: Mapping[str, str] = MappingProxyType({}), caller: FrameType) -> Any:
    """Load a name that PyFlink defines in this module and flinkish in another one (its home); raise an error for any other name.

    Names of PyFlink that are absent raise AbsentMemberError, or AbsentImportError if the caller is executing
    `from module import name`; all other names raise AttributeError.
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
    raise _refusal(error, f"{module}.{name}", absence)


def refuse_module(module: str) -> None:
    """Raise AbsentModuleError for a PyFlink module that flinkish does not have; called for modules that no finder has found."""
    absence = absence_of(module.removeprefix(_PACKAGE))
    # A name that is not a module is refused by its parent module, which exists.
    if absence is not None and _is_module(module.removeprefix(_PACKAGE)):
        raise _refusal(AbsentModuleError, f"module {module}", absence, name=module)


class AbsentMember:
    """A member that a class has in PyFlink but not in flinkish: raises AbsentMemberError on access.

    It is an attribute of the class, because a `__getattr__` method would slow down every access to an attribute.
    """

    def __init__(self, absence: Absence) -> None:
        self.absence = absence

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Absence:
        # Never returns, but is not declared NoReturn: a type checker would skip all code after an access as unreachable.
        raise _refusal(AbsentMemberError, f"{owner.__qualname__}.{self._name}", self.absence)


def declare_absent(owner: type, absences: Mapping[str, Absence]) -> None:
    """Give a class absent members from a table; subclasses may define some of them."""
    for name, absence in absences.items():
        member = AbsentMember(absence)
        member.__set_name__(owner, name)
        setattr(owner, name, member)


def _is_module(qualified: str) -> bool:
    from flinkish.common.absent_names import MODULES, TABLE

    # Names of modules are in lower case, those of classes are not.
    below_table = qualified.startswith(f"{TABLE}.") and qualified.islower()
    return below_table or any(qualified == module or qualified.startswith(f"{module}.") for module in MODULES)


def _refusal(kind: Callable[..., UnsupportedError], name: str, absence: Absence, /, **details: str) -> UnsupportedError:
    gone = "is not supported, and not in Flink 2" if absence.kind == "gone" else "is not supported"
    return kind(f"{name} {gone}: {absence.reason}.", hint=f"{absence.see}.", **details)


def _imports_from(frame: FrameType) -> bool:
    """Return whether a frame is executing `from module import name`.

    There, Python replaces an AttributeError by an ImportError of its own, which would lack the reason.
    """
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]
