"""JSON objects in one step and as columns, beside the plain way: decode all, then convert."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from flinkish.common import Row, Types
from flinkish.common.column_layout import needed_layout
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation
from flinkish.datastream.connectors.file_system.json_reader import JsonReader
from flinkish.datastream.connectors.file_system.json_values import JsonConverters, json_decoder

FIELDS: dict[str, TypeInformation] = {
    "byte": Types.BYTE(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "big": Types.BIG_INT(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "decimal": Types.BIG_DEC(),
    "boolean": Types.BOOLEAN(),
    "text": Types.STRING(),
    "char": Types.CHAR(),
    "a time": Types.SQL_TIMESTAMP(),
    "instant": Types.INSTANT(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "longs": Types.LIST(Types.LONG()),
    "doubles": Types.PRIMITIVE_ARRAY(Types.DOUBLE()),
    "días": Types.SQL_DATE(),
    "map": Types.MAP(Types.STRING(), Types.LONG()),
}
FLAT = Types.ROW_NAMED(list(FIELDS), list(FIELDS.values()))
NESTED = Types.ROW_NAMED(["id", "inner", "pair"], [Types.LONG(), FLAT, Types.TUPLE([Types.LONG(), Types.STRING()])])
#: Texts of values, most of which fit one type or another.
_TEXTS = """
null true false 0 -0 -0.0 7 -8 127 128 -129 2147483648 9223372036854775807 9223372036854775808 -9223372036854775809
123456789012345678901234567890 1.0 1e2 1.5 0.1 1e400 3.5e38 9007199254740993 "7" "1.5" "1e2" "NaN" "-Infinity" "x" "" "grün"
"true" "TRUE" "a\\u0062" "\\ud800" "1_000" "2026-01-02" "2026-01-02T03:04:05" "2026-01-02T03:04:05.123456789Z" "AAE="
[] [1,2] [1,null] [1.5,2] ["a"] {} {"a":1} {"a":null,"b":2} {"a":"7"} {"a":1,"a":2} [1,"x"]
"""
VALUES: Final = _TEXTS.split()
BROKEN: Final = (
    *[b"", b"{", b'{"text":"a', b"[1]", b"null", b"7", b'{"int":1} {"int":2}', b'{"int":1},{"int":2}'],
    *[b'{"other":"\xff"}', b'"}\n{"', b" {}", b'{"int":1} ', b'{\n"int":1}'],
)


def plain(converters: JsonConverters, type_info: TypeInformation) -> Callable[[bytes], Any]:
    convert, decode = converters.build(type_info), json_decoder(type_info).decode
    return lambda text: convert(decode(text), "")


def shown(read: Callable[[bytes], Any], text: bytes) -> str:
    """Return the value as `repr`, which tells 1 from 1.0."""
    try:
        return repr(read(text))
    except (ValueError, RecursionError):
        return "refused"


def objects(rng: random.Random, count: int, most: int) -> list[bytes]:
    texts = []
    for _ in range(count):
        names = rng.sample([*FIELDS, "other"], rng.randint(0, most))
        fields = [f'"{name}":{rng.choice(VALUES)}' for name in names]
        texts.append(("{" + ",".join(fields) + "}").encode())
    return texts


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("demanded", [False, True])
@pytest.mark.parametrize("forgiving", [False, True])
def test_an_object_is_what_it_is_when_it_is_decoded_whole_and_then_converted(
    lenient: bool, demanded: bool, forgiving: bool
) -> None:
    converters = JsonConverters(lenient=lenient, fail_on_missing_field=demanded, ignore_parse_errors=forgiving)
    rng = random.Random(3)
    for type_info in (FLAT, NESTED):
        read, read_plainly = JsonReader(type_info, converters).read, plain(converters, type_info)
        nested = [b'{"id":1,"inner":' + text + b',"pair":[1,"a"]}' for text in objects(rng, 300, 2)]
        for text in [*objects(rng, 1_000, 3), *objects(rng, 100, 16), *nested, *BROKEN]:
            assert shown(read, text) == shown(read_plainly, text), text


@pytest.mark.parametrize("lenient", [False, True])
def test_a_block_has_the_rows_of_its_texts_or_is_left_to_be_read_one_by_one(lenient: bool) -> None:
    converters = JsonConverters(lenient=lenient)
    flat = Types.ROW_NAMED(*map(list, zip(*((name, part) for name, part in FIELDS.items() if name != "decimal"), strict=True)))
    both = Types.ROW_NAMED(["own", "inner", "all"], [Types.INT(), flat, Types.LIST(flat)])
    rows = Types.ROW_NAMED(["id", "inner"], [Types.LONG(), both])
    rng = random.Random(4)

    def inside(text: bytes) -> bytes:
        forms = [
            b'{"own":1,"inner":#}',
            b'{"inner":#}',
            b'{"own":2}',
            b"null",
            b"{}",
            b'{"all":[#,{},null,#],"inner":#}',
            b'{"all":[]}',
        ]
        return b'{"id":1,"inner":' + rng.choice(forms).replace(b"#", text) + b"}"

    for type_info, around in ((flat, bytes), (rows, inside)):
        reader, layout, read_plainly = (
            JsonReader(type_info, converters),
            needed_layout(type_info, "rows"),
            plain(converters, type_info),
        )
        assert reader.why_records is None
        taken = 0
        for _ in range(1_500):
            # Only a field that is not read may be so large, see below.
            texts = [around(text.replace(b"1e400", b"1e300")) for text in objects(rng, rng.randint(1, 4), 2)]
            if rng.random() < 0.1:
                texts[rng.randrange(len(texts))] = rng.choice(BROKEN)
            batch = reader.batch(texts)
            if batch is not None:
                taken += 1
                assert repr(layout.records_of(batch)) == repr(list(map(read_plainly, texts))), texts
        assert taken > 200


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"a":1', b'"b":2}', b'{"a":3}{"b":4}'],
        [b'{"a":1}\n{"b":2}', b'{"a":3', b',"b":4}'],
        [b'{"l":[{"x":1}', b'{"x":2}]}', b'{"a":1}{"a":2}'],
        [b'{"l":{"x":1}', b',"a":2}{"a":3}'],
        [b'{"l":[1,', b'{"x":2}]}{"a":3}'],
        [b'{"t":"x}', b'{"}', b'{"a":1}{"a":2}'],
        [b'{"a":1}', b"", b'{"a":2}{"a":3}'],
        [b'{"a":1}', b'{"a":2}{"a":3}'],
        [b'{"a":1}{"a":2}'],
        [b'{"a":1}', b"null"],
        [b"\xef\xbb\xbf{}", b"{}"],
    ],
)
def test_a_block_is_read_one_by_one_unless_each_text_is_one_object(texts: list[bytes]) -> None:
    names = ["a", "b", "t"]
    reader = JsonReader(Types.ROW_NAMED(names, [Types.LONG(), Types.LONG(), Types.STRING()]), JsonConverters())
    assert reader.batch(texts) is None


def test_a_large_block_has_all_rows_in_order_or_is_read_one_by_one() -> None:
    reader = JsonReader(Types.ROW_NAMED(["a"], [Types.LONG()]), JsonConverters())
    texts = [b'{"a":%d}' % number for number in range(5_000)]
    batch = reader.batch(texts)
    assert batch is not None
    assert batch.column(0).to_pylist() == list(range(5_000))
    assert reader.batch([*texts, b"null"]) is None


def test_why_texts_are_read_one_by_one() -> None:
    long = Types.LONG()
    assert "row type" in (JsonReader(long, JsonConverters()).why_records or "")
    assert "'inner.decimal'" in (JsonReader(NESTED, JsonConverters()).why_records or "")
    pairs, rows = Types.TUPLE([long, long]), Types.LIST(Types.LIST(Types.ROW_NAMED(["a"], [long])))
    for part in (Types.MAP(Types.STRING(), Types.SQL_DATE()), Types.BIG_DEC(), Types.PICKLED_BYTE_ARRAY(), pairs, rows):
        assert "'m'" in (JsonReader(Types.ROW_NAMED(["m"], [part]), JsonConverters()).why_records or "")
    for part in (Types.LIST(long), DecimalTypeInfo(5, 2), Types.MAP(Types.STRING(), long), Types.ROW_NAMED(["a"], [long])):
        assert JsonReader(Types.ROW_NAMED(["l"], [part]), JsonConverters()).why_records is None


def test_a_field_that_is_not_read_may_be_too_large_for_a_number() -> None:
    reader = JsonReader(Types.ROW_NAMED(["a"], [Types.LONG()]), JsonConverters())
    assert reader.read(b'{"a":1,"other":1e999}') == Row(a=1)
