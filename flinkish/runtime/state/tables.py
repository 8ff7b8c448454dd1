"""The declaration of a table of state, and the addresses of its values.

An *address* is a key or, for state in a namespace (a window), a `Namespaced` of both. A *frozen* value is the form in which
values are stored between epochs, and in which they are passed to and from checkpoints.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from flinkish.common.errors import FlinkishError, StateError, TypeMismatchError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.state.codec import Codec, row_fields, structure_of

Address = Any
#: A value as it is stored between epochs: the value itself if it is immutable, otherwise its encoding.
Frozen = Any


#: The address of a state: operator uid, category, name.
StateAddress = tuple[str, str, str]

#: The address of operator state in its table.
OPERATOR_ADDRESS = None
LONG_CODEC = Codec(Types.LONG())


class Namespaced(NamedTuple):
    """The address of state in a namespace."""

    key: Any
    namespace: Any
    #: Distinguishes such an address from a key that is a pair.
    mark: str = "\0namespace"


def key_of(address: Address) -> Any:
    """Return the key of an address."""
    return address.key if address.__class__ is Namespaced else address


def namespace_of(address: Address) -> Any:
    """Return the namespace of an address, None for void."""
    return address.namespace if address.__class__ is Namespaced else None


def address_of(key: Any, namespace: Any) -> Address:
    """Return the address of a key in a namespace, None for void."""
    return key if namespace is None else Namespaced(key, namespace)


#: How state in namespaces is grouped: first by namespace, first by key, or not at all.
Grouping = Literal["address", "namespace", "key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """The declaration of a state; it is in the log, so that a snapshot can be taken before the operator requests the state again.

    `kind` is the `state_kind` of checkpoint rows. `key_type` is None for operator state. `types` are those of the value, of the
    elements, or of a map's keys and values. Reducing and aggregating state are values with a kind of their own.
    """

    kind: str
    key_type: TypeInformation | None
    types: tuple[TypeInformation, ...]
    ttl: bool = False
    max_parallelism: int = 1
    #: How the table is grouped; checkpoints do not depend on it.
    grouped_by: Grouping = "address"

    def structure(self) -> str:
        """Return a description of the properties that must be equal for state to be restored."""
        types = ", ".join(map(structure_of, self.types))
        key = "" if self.key_type is None else f" by {structure_of(self.key_type)}"
        return f"{self.kind}({types}){key}"

    def fields(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the fields of each row in the types, which must be equal for state to be restored."""
        types = self.types if self.key_type is None else (*self.types, self.key_type)
        return tuple(names for each in types for names in row_fields(each))

    def __str__(self) -> str:
        types = ", ".join(map(repr, self.types))
        key = "" if self.key_type is None else f" with keys of type {self.key_type!r}"
        return f"{self.kind} state of type {types}{key}"


VALUE = "value"
REDUCING = "reducing"
AGGREGATING = "aggregating"
LIST = "list"
MAP = "map"
TIMERS = "timers"
OPERATOR_LIST = "operator_list"
OPERATOR_UNION = "operator_union"
OPERATOR_BROADCAST = "operator_broadcast"
INTERNAL = "internal"
INTERNAL_META = TableMeta(kind=INTERNAL, key_type=None, types=())


@contextlib.contextmanager
def naming(address: StateAddress) -> Iterator[None]:
    """Add the name of the state to errors about its values, because an object changed in place is checked only when written."""
    try:
        yield
    except (TypeMismatchError, StateError) as error:
        raise type(error)(f"state {address[2]!r} of operator {address[0]}: {error}") from error
    except (FlinkishError, OSError):
        raise
    except Exception as error:
        raise StateError(
            f"state {address[2]!r} of operator {address[0]} holds a value that cannot be stored as it is declared: "
            f"{type(error).__name__}: {error}",
            hint="keep only data in state: no open files, locks or clients; and values of the declared type.",
        ) from error
