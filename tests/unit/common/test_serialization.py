"""Schemas, encoders and serializers."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest

from flinkish.common import ByteArraySchema, Encoder, Row, SimpleStringSchema, Types
from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.common.serialization import DeserializationSchema, RowFieldExtractorSchema, SerializationSchema
from flinkish.common.serializer import TypeSerializer, VoidNamespaceSerializer


@pytest.mark.parametrize("charset", ["UTF-8", "UTF-16", "ISO-8859-1"])
def test_text_goes_through_its_character_set_and_back(charset: str) -> None:
    schema = pickle.loads(pickle.dumps(SimpleStringSchema(charset)))
    assert schema.deserialize(schema.serialize("grün")) == "grün"
    assert schema.get_produced_type() == Types.STRING()
    assert not schema.is_end_of_stream("grün")


@pytest.mark.parametrize("charset", ["UTF-16", "UTF-32", "UTF-8-SIG", "UTF-16LE"])
def test_an_encoder_of_lines_writes_no_byte_order_mark_before_each_record(charset: str) -> None:
    encode = Encoder.simple_string_encoder(charset).encode_function(Types.STRING())
    name = {"UTF-16": "UTF-16BE", "UTF-32": "UTF-32BE", "UTF-8-SIG": "UTF-8"}.get(charset, charset)
    assert (encode("a") + encode("grün")).decode(name) == "a\ngrün\n"


def test_undecodable_bytes_are_an_error() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        SimpleStringSchema().deserialize(b"\xff")


@pytest.mark.parametrize("charset", ["klingon", "hex", 5])
def test_an_unknown_character_set_is_refused(charset: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{charset!r} is not a character set"):
        SimpleStringSchema(charset)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (SimpleStringSchema(), 5),
        (ByteArraySchema(), "x"),
        (RowFieldExtractorSchema(0), Row("x")),
        (RowFieldExtractorSchema(1), Row(b"x")),
        (RowFieldExtractorSchema(0), 5),
    ],
)
def test_values_of_another_type_are_refused(schema: SerializationSchema, value: Any) -> None:
    with pytest.raises(TypeMismatchError):
        schema.serialize(value)


def test_bytes_pass_as_they_are() -> None:
    schema = ByteArraySchema()
    assert schema.deserialize(schema.serialize(bytearray(b"ab"))) == b"ab"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_the_field_extractor_takes_one_field_and_makes_nothing_of_none() -> None:
    assert RowFieldExtractorSchema(1).serialize(Row(b"a", b"b")) == b"b"
    assert RowFieldExtractorSchema(0).serialize(Row(None)) == b""
    assert RowFieldExtractorSchema(1) == RowFieldExtractorSchema(1)
    with pytest.raises(InvalidArgumentError, match="at least 0"):
        RowFieldExtractorSchema(-1)


def test_schemas_of_users_must_implement_their_method() -> None:
    with pytest.raises(NotImplementedError, match="serialize"):
        SerializationSchema().serialize(1)
    with pytest.raises(NotImplementedError, match="deserialize"):
        DeserializationSchema().deserialize(b"")


def test_the_string_encoder_writes_lines_of_printed_records() -> None:
    encode = Encoder.simple_string_encoder().encode_function(Types.ROW([Types.STRING(), Types.INT()]))
    assert encode(Row("ä", None)) == "+I[ä, null]\n".encode()
    assert Encoder.simple_string_encoder("ISO-8859-1").encode_function(Types.STRING())("ä") == b"\xe4\n"


def test_serializers_of_users_are_equal_if_their_attributes_are() -> None:
    class Scaled(TypeSerializer[int]):
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def serialize(self, element: int, stream: BytesIO) -> None:
            stream.write(str(element * self.factor).encode())

        def deserialize(self, stream: BytesIO) -> int:
            return int(stream.read()) // self.factor

    stream = BytesIO()
    Scaled(3).serialize(5, stream)
    assert Scaled(3).deserialize(BytesIO(stream.getvalue())) == 5
    assert Scaled(3) == Scaled(3)
    assert Scaled(3) != Scaled(4)
    assert VoidNamespaceSerializer().deserialize(BytesIO(b"x")) == b""
