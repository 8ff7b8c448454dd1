"""sum, min, max, min_by and max_by of fields of each kind, of many records; here also on columns, see test_programs.py."""

import math
import random

from flinkish.common import Row, Types
from tests.compatibility.kit import case

_RANDOM = random.Random(20261128)


def _number(most):
    return _RANDOM.randrange(-most, most + 1)


#: Fields: the type, and how a value is made. Sums stay in their range.
FIELDS = {
    "byte": (Types.BYTE, lambda: _number(1)),
    "short": (Types.SHORT, lambda: _number(100)),
    "int": (Types.INT, lambda: _number(10_000)),
    "long": (Types.LONG, lambda: _number(10**15)),
    "double": (Types.DOUBLE, lambda: _number(10**6) / 7),
    "text": (Types.STRING, lambda: _RANDOM.choice(["", "a", "b", "ab", "ä"])),
}
RECORDS = [(_RANDOM.choice("xyz"), *(make() for _, make in FIELDS.values())) for _ in range(24)]
SPECIALS = [(_RANDOM.choice("xy"), _RANDOM.choice([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan])) for _ in range(24)]


def tuple_type():
    return Types.TUPLE([Types.STRING(), *(of() for of, _ in FIELDS.values())])


def row_type():
    return Types.ROW_NAMED(["key", *FIELDS], [Types.STRING(), *(of() for of, _ in FIELDS.values())])


def special_type():
    return Types.TUPLE([Types.STRING(), Types.DOUBLE()])


def first(record):
    return record[0]


def keyed(env, type_info, records):
    return env.from_collection(records, type_info).key_by(first, Types.STRING())


def _case(kind, field, make_type, records):
    @case()
    def aggregation(env):
        return getattr(keyed(env, make_type(), records), kind)(field)

    return aggregation


ROWS = [Row(**dict(zip(["key", *FIELDS], record, strict=True))) for record in RECORDS]
for _kind in ("sum", "min", "max", "min_by", "max_by"):
    for _position, _field in enumerate(FIELDS, 1):
        globals()[f"{_kind}_of_{_field}_in_tuples"] = _case(_kind, _position, tuple_type, RECORDS)
        if _field in ("int", "double"):
            globals()[f"{_kind}_of_{_field}_in_rows"] = _case(_kind, _field, row_type, ROWS)
    globals()[f"{_kind}_of_special_doubles"] = _case(_kind, 1, special_type, SPECIALS)
