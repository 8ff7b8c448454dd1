"""Random values come back from the state's codecs as they were."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.columns import decode_all, encode_all, freeze_all, json_column, json_of
from tests.unit.runtime.state.test_codec import PLAIN, TYPES, same


@pytest.mark.parametrize(("type_info", "values"), TYPES, ids=lambda part: repr(part) if isinstance(part, TypeInformation) else "")
def test_typed_values_come_back_as_they_were(type_info: TypeInformation, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=12), st.booleans())
    def check(batch: list[Any], ttl: bool) -> None:
        codec = Codec(type_info, ttl=ttl)
        if ttl:
            batch = [(number, value) for number, value in enumerate(batch)]
        assert all(same(codec.decode(codec.encode(value)), value) for value in batch)
        frozen = [codec.freeze(value) for value in batch]
        assert all(same(codec.thaw(value), original) for value, original in zip(frozen, batch, strict=True))
        column = encode_all(codec, frozen, frozen=True)
        assert column.to_pylist() == [codec.encode(value) for value in batch]
        assert encode_all(codec, batch, frozen=False).equals(column)
        chunked = pa.chunked_array([column.slice(0, 3), column.slice(3)]).cast(pa.binary())
        assert same(decode_all(codec, chunked), batch)
        assert same([codec.thaw(value) for value in freeze_all(codec, chunked)], batch)
        assert json_column(codec, column).to_pylist() == [json_of(codec, encoding) for encoding in column.to_pylist()]

    check()


@given(st.lists(PLAIN, max_size=6))
def test_untyped_values_of_a_batch_are_shown_as_they_are_one_by_one(batch: list[Any]) -> None:
    codec = Codec(Types.PICKLED_BYTE_ARRAY())
    column = encode_all(codec, [codec.freeze(value) for value in batch], frozen=True)
    assert column.to_pylist() == list(map(codec.encode, batch))
    assert json_column(codec, column).to_pylist() == [json_of(codec, encoding) for encoding in column.to_pylist()]
