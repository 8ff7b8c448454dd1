"""Reads blocks of CSV lines as columns."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from flinkish.common.column_layout import Layout, whole
from flinkish.common.errors import TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, kind_of
from flinkish.common.typeinfo import BasicType
from flinkish.datastream.connectors.file_system.csv_values import LONGEST_FIELD, CsvDialect, Parse

#: The kinds that Arrow reads as `row_parsers` do, or not at all, but for what `CsvColumns` looks at.
_DIRECT: Final = (*INTEGER_BITS, BasicType.DOUBLE, BasicType.FLOAT, BasicType.BOOLEAN, BasicType.STRING)


class CsvColumns:
    """Reads blocks of lines that have one record each, if Python's csv module and Arrow's surely read the same.

    `places`: the position in a line of each field of the layout. `width`: the number of fields in a line. `parsers`: those of
    `row_parsers`.
    """

    def __init__(
        self, dialect: CsvDialect, layout: Layout, places: Sequence[int], width: int, parsers: Sequence[Parse | None]
    ) -> None:
        self._layout = layout
        self._kinds = list(map(kind_of, layout.types))
        self._parsers = parsers
        self._nulls = pa.array(dialect.null_values, pa.string())
        quote = dialect.quote_char
        self._quote = b"" if quote is None else quote.encode()
        between, mark = re.escape(dialect.delimiter), re.escape(quote or "")
        text = rf"[^{mark}\n]*+(?:{mark}{mark}[^{mark}\n]*+)*+"
        # It begins with the mark itself, which Python finds three times faster than a place with a mark after it.
        field = rf"{mark}(?<![^{between}\n]{mark}){text}{mark}(?={between}|\r?$)"
        self._quoted = re.compile(field.encode(), re.MULTILINE)
        #: A block with one of these is read by records. Arrow takes numbers that begin with 0x.
        self._special = [each.encode() for each in (dialect.comment, dialect.escape_char) if each is not None]
        if any(kind in INTEGER_BITS for kind in self._kinds):
            self._special += [b"0x", b"0X"]
        self._parse_options = csv.ParseOptions(delimiter=dialect.delimiter, quote_char=quote or False)
        self._names = [str(place) for place in range(width)]
        self._places = [str(place) for place in places]
        types = [
            pa.float64() if kind is BasicType.FLOAT else field.type if kind in _DIRECT else pa.string()
            for kind, field in zip(self._kinds, layout.schema, strict=True)
        ]
        self._convert_options = csv.ConvertOptions(
            column_types=dict(zip(self._places, types, strict=True)),
            include_columns=self._places,
            null_values=["", *dialect.null_values],
            true_values=["true", "True", "TRUE", "1"],
            false_values=["false", "False", "FALSE", "0"],
            strings_can_be_null=False,
        )

    def batch(self, lines: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the records of lines as columns; None if they must be read one by one, such as if one is malformed."""
        data = b"\n".join(lines)
        if not self._is_plain(data):
            return None
        options = csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names)
        try:
            if not data.isascii():
                data.decode()  # also the fields that the layout lacks
            table = csv.read_csv(pa.BufferReader(data), options, self._parse_options, self._convert_options)
            columns = [self._column(position, whole(table.column(place))) for position, place in enumerate(self._places)]
        except (ValueError, ArithmeticError, TypeMismatchError):  # pa.ArrowInvalid is a ValueError
            return None
        return self._layout.batch(columns)

    def _is_plain(self, data: bytes) -> bool:
        """Return whether quotes are only those around whole fields, and carriage returns only those at the end of lines."""
        if len(data) > LONGEST_FIELD or any(special in data for special in self._special):
            return False
        if data.startswith(codecs.BOM_UTF8):  # which Arrow would leave out at the beginning of any block
            return False
        if b"\r" in data and data.count(b"\r") != data.count(b"\r\n") + data.endswith(b"\r"):
            return False
        return not (self._quote and self._quote in data and self._quote in self._quoted.sub(b"", data))

    def _column(self, position: int, column: pa.Array) -> pa.Array:
        """Return the column of a field for what Arrow has read; raise ValueError if records could have other values."""
        kind, parse = self._kinds[position], self._parsers[position]
        if kind is BasicType.STRING:
            return pc.if_else(pc.is_in(column, self._nulls), None, column) if len(self._nulls) else column
        if kind not in _DIRECT:
            assert parse is not None
            texts = column.dictionary_encode()
            values = list(map(parse, texts.dictionary.to_pylist()))
            return self._layout.column(position, values).take(texts.indices)
        if kind is BasicType.FLOAT:
            column = column.cast(pa.float32(), safe=False)
        if pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False:
            raise ValueError("a number that is too large is infinite for Arrow")
        return column
