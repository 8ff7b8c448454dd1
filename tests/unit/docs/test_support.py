"""The table of what is supported: every name of PyFlink is there or explained, and no explanation has outlived its cause."""

from __future__ import annotations

from typing import Any

import pytest

from docs.reasons import REASONS, Kind, Reason
from docs.support import Name, Status, compare, compare_class, reason_keys, recorded


@pytest.fixture(scope="module")
def names() -> list[Name]:
    return compare()


def test_every_name_of_pyflink_is_there_or_explained(names: list[Name]) -> None:
    assert [f"{name.module}.{name.qualified}: {name.note}" for name in names if name.status is Status.UNEXPLAINED] == []


def test_a_name_without_a_reason_is_found(names: list[Name]) -> None:
    module = "pyflink.datastream.connectors.jdbc"
    described = recorded()["modules"][module]["JdbcSink"]

    found = compare_class(module, "JdbcSink", described, reasons={})

    assert {name.status for name in found} == {Status.UNEXPLAINED}
    assert len(found) == 2


def test_a_changed_signature_is_found() -> None:
    described: dict[str, Any] = {"methods": {"map": [["func", None], ["output_type", "1"]]}, "constants": []}

    _, found = compare_class("pyflink.datastream.data_stream", "DataStream", described)

    assert (found.status, found.note) == (Status.UNEXPLAINED, "map: output_type=None, not 1")


def test_what_a_docstring_says_differs_is_in_the_table(names: list[Name]) -> None:
    noted = {(name.owner, name.name): name for name in names}

    assert noted["MapState", "put_all"].status is Status.DIFFERS
    assert "PyFlink documents the dict" in noted["MapState", "put_all"].note
    assert noted["StreamExecutionEnvironment", "create_input"].status is Status.UNSUPPORTED
    assert noted["DataStream", "map"].status is Status.SUPPORTED


def test_no_reason_has_outlived_its_cause() -> None:
    """Each is needed for something that would be unexplained, or is only a placeholder, or tells how what is there differs."""
    bare = [name for name in compare(reasons={}) if name.status is Status.UNEXPLAINED or name.is_placeholder]
    needed = {key for name in bare for key in (*reason_keys(name.module, name.owner, name.name), name.owner)}

    assert [key for key, reason in REASONS.items() if key not in needed and reason.kind is not Kind.DIFFERS] == []


def test_every_reason_is_about_a_name_of_pyflink(names: list[Name]) -> None:
    known = {name.qualified for name in names} | {f"*.{name.name}" for name in names}
    known |= {name.module.removeprefix("pyflink.") for name in names}

    assert [key for key in REASONS if key not in known] == []


def test_reasons_are_texts_for_people() -> None:
    assert [key for key, reason in REASONS.items() if len(reason.text) < 8 or reason.text.endswith(".")] == []
    assert Reason(Kind.LATER, "x").kind is Kind.LATER
