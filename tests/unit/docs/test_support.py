"""The table of what is supported: every name of PyFlink is there or explained, and no explanation has outlived its cause."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from docs.reasons import REASONS, Kind, Reason
from docs.support import Name, Status, compare, compare_class, find, reason_keys, recorded
from flinkish.common.errors import UnsupportedError


@pytest.fixture(scope="module")
def names() -> list[Name]:
    return compare()


def test_every_name_of_pyflink_is_there_or_explained(names: list[Name]) -> None:
    assert [f"{name.module}.{name.qualified}: {name.note}" for name in names if name.status is Status.UNEXPLAINED] == []


def test_a_name_without_a_reason_is_found(names: list[Name]) -> None:
    module = "pyflink.datastream.connectors.rabbitmq"
    described = recorded()["modules"][module]["RMQSource"]

    found = compare_class(module, "RMQSource", described, reasons={})

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
    assert noted["EmbeddedRocksDBStateBackend", "set_options"].status is Status.UNSUPPORTED
    assert noted["DataStream", "map"].status is Status.SUPPORTED


def test_no_reason_has_outlived_its_cause() -> None:
    """Each is needed for something that would be unexplained, or that is there only to say that it is not supported."""
    bare = [name for name in compare(reasons={}) if name.status is Status.UNEXPLAINED or says_unsupported(name)]
    needed = {key for name in bare for key in (*reason_keys(name.module, name.owner, name.name), name.owner)}

    assert [key for key, reason in REASONS.items() if key not in needed and reason.kind is not Kind.DIFFERS] == []


def test_what_is_there_but_not_supported_says_so_when_it_is_called(names: list[Name]) -> None:
    declared = [name for name in names if name.status in (Status.UNSUPPORTED, Status.LATER) and not name.is_class]
    silent = [name.qualified for name in declared if callable(find(name.module, name.qualified)) and not says_unsupported(name)]

    assert silent == []


def says_unsupported(name: Name) -> bool:
    """Return whether something that has a reason not to be supported refuses to be called; nothing else is called here."""
    keys = (*reason_keys(name.module, name.owner, name.name), name.owner)
    ours = find(name.module, name.qualified)
    if not callable(ours) or not any(REASONS[key].kind in (Kind.UNSUPPORTED, Kind.LATER) for key in keys if key in REASONS):
        return False
    try:
        ours(*[None for parameter in inspect.signature(ours).parameters.values() if parameter.default is parameter.empty])
    except UnsupportedError:
        return True
    except Exception:
        return False
    return False


def test_every_reason_is_about_a_name_of_pyflink(names: list[Name]) -> None:
    known = {name.qualified for name in names} | {f"*.{name.name}" for name in names}
    known |= {name.module.removeprefix("pyflink.") for name in names}

    assert [key for key in REASONS if key not in known] == []


def test_reasons_are_texts_for_people() -> None:
    assert [key for key, reason in REASONS.items() if len(reason.text) < 8 or reason.text.endswith(".")] == []
    assert Reason(Kind.LATER, "x").kind is Kind.LATER
