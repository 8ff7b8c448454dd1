"""Changes of types that keep the meaning of stored values, and the functions that convert the values.

As in Flink: fields of rows may be added (they are None in old values) and removed, and numbers may be widened. All else is
refused, because a value would become another one: a renamed field would lose its values, a moved one might get those of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flinkish.common.conversion import by_parts, nullable, same
from flinkish.common.kinds import Kind, part_names, plain_type, shape_of
from flinkish.common.typeinfo import BasicType, TypeInformation
from flinkish.common.types import make_row

Convert = Callable[[Any], Any]

#: To which types the numbers of a type may be widened; all of them hold each number exactly.
_WIDER: Final[dict[BasicType | Kind, tuple[BasicType, ...]]] = {
    BasicType.BYTE: (BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT, BasicType.FLOAT, BasicType.DOUBLE),
    BasicType.SHORT: (BasicType.INT, BasicType.LONG, BasicType.BIG_INT, BasicType.FLOAT, BasicType.DOUBLE),
    BasicType.INT: (BasicType.LONG, BasicType.BIG_INT, BasicType.DOUBLE),
    BasicType.LONG: (BasicType.BIG_INT,),
    BasicType.FLOAT: (BasicType.DOUBLE,),
}


def evolve(stored: TypeInformation, declared: TypeInformation) -> Convert | None:
    """Return the function that converts stored values to the declared type; None if they are the same in both types.

    The function leaves None as it is.
    Raises ValueError, with the reason, if the change would lose or change the meaning of values.

    >>> from flinkish.common.typeinfo import Types
    >>> convert = evolve(Types.ROW_NAMED(["id"], [Types.INT()]), Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]))
    >>> convert(make_row(("id",), [1]))
    Row(id=1, name=None)
    """
    stored, declared = plain_type(stored), plain_type(declared)
    (before, old), (now, new) = shape_of(stored), shape_of(declared)
    if now in _WIDER.get(before, ()):
        return nullable(float) if now in (BasicType.FLOAT, BasicType.DOUBLE) else None
    if before is not now or (before is Kind.LIST and type(stored) is not type(declared)):
        raise ValueError(f"{stored!r} cannot become {declared!r}")
    match now:
        case Kind.ROW:
            return _evolve_row(stored, declared)
        case Kind.TUPLE:
            if len(old) != len(new):
                raise ValueError("the fields of a tuple have no names, so none can be added or removed")
            return by_parts(now, list(map(evolve, old, new)))
        case Kind.LIST:
            return by_parts(now, [evolve(old[0], new[0])])
        case Kind.MAP:
            if repr(old[0]) != repr(new[0]):
                raise ValueError(f"the keys of a map cannot change from {old[0]!r} to {new[0]!r}")
            return by_parts(now, [None, evolve(old[1], new[1])])
        case _:
            return None


def _evolve_row(stored: TypeInformation, declared: TypeInformation) -> Convert | None:
    old, new = (dict(zip(part_names(each), shape_of(each)[1], strict=True)) for each in (stored, declared))
    unnamed = [list(names) == [f"f{position}" for position in range(len(names))] for names in (old, new)]
    if any(unnamed) and len(old) == len(new) and (all(unnamed) or old.keys().isdisjoint(new)):
        # Fields get or lose their names; they stay at their positions.
        old = dict(zip(new, old.values(), strict=True))
    removed, added = [name for name in old if name not in new], [name for name in new if name not in old]
    if removed and (added or all(unnamed)):
        raise ValueError(
            f"the field{'s' if len(removed) > 1 else ''} {', '.join(removed)} would lose "
            f"{'their' if len(removed) > 1 else 'its'} values" + (f", if it was renamed to {', '.join(added)}" if added else "")
        )
    kept = [name for name in old if name in new]
    if kept != [name for name in new if name in old]:
        raise ValueError("fields were moved")
    converters = [evolve(old[name], new[name]) or same for name in kept]
    names = tuple(new)
    if not removed and not added and all(convert is same for convert in converters):
        return None
    positions = [list(old).index(name) if name in old else None for name in new]
    of_field = dict(zip(kept, converters, strict=True))
    each = [of_field.get(name, same) for name in new]

    def convert(row: Any) -> Any:
        values = list(row)
        fields = [None if at is None else one(values[at]) for at, one in zip(positions, each, strict=True)]
        return make_row(names, fields, row.get_row_kind())

    return nullable(convert)
