"""Copies records that user code may still refer to and change.

A record waits in a channel's buffer until its frame is cut; a function that changes an object after emitting it must not change
the record. Immutable values are not copied, so a scalar costs one look-up in a set.
"""

from __future__ import annotations

import copy
import enum
import uuid
from typing import Any

from flinkish.common.time import Instant
from flinkish.common.types import Row, row_like
from flinkish.runtime.state.codec import KEPT_AS_THEY_ARE

#: Classes whose instances never change.
SCALARS = KEPT_AS_THEY_ARE | {bytes, complex, uuid.UUID, Instant}


def isolate(value: Any) -> Any:
    """Return `value` itself if it is immutable, otherwise a copy."""
    kind = value.__class__
    if kind in SCALARS:
        return value
    if kind is tuple:
        for item in value:
            if item.__class__ not in SCALARS:
                return tuple([isolate(item) for item in value])
        return value
    if kind is Row:
        if value._kwargs is not None:
            value._settle()
        values = value._list
        for item in values:
            if item.__class__ not in SCALARS:
                return row_like(value, [isolate(item) for item in values])
        return row_like(value, [*values])
    if kind is list:
        return [isolate(item) for item in value]
    if kind is dict:
        return {key: isolate(item) for key, item in value.items()}
    if kind is frozenset and all(item.__class__ in SCALARS for item in value):
        return value
    if isinstance(value, enum.Enum):
        return value
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        for item in value:
            if item.__class__ not in SCALARS:
                return kind._make([isolate(part) for part in value])
        return value
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        fields = kind.__dataclass_fields__
        if all(getattr(value, name).__class__ in SCALARS for name in fields):
            return value
    return copy.deepcopy(value)
