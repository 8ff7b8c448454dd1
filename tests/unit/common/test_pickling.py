"""Programs travel to other processes by value; what cannot travel is named."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import msgspec
import pytest

from flinkish.common import pickling
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    FlinkishError,
    InvalidArgumentError,
    InvalidProgramError,
    NotSerializableError,
)


class Holder:
    def __init__(self, part: Any) -> None:
        self.part = part

    def method(self, value: Any) -> Any:
        return value


def test_plain_values_and_lambdas_go_through() -> None:
    assert pickling.loads(pickling.dumps([1, "a"])) == [1, "a"]
    assert pickling.loads(pickling.dumps(lambda value: value + 1))(1) == 2


def test_a_pickle_names_what_it_needs_without_loading_it() -> None:
    value = [Holder(Holder("Holder")), InvalidArgumentError("no"), InvalidProgramError("no"), Holder(1)]

    names = pickling.names_in(pickling.dumps(value))

    assert names == [
        "tests.unit.common.test_pickling.Holder",
        "flinkish.common.errors.InvalidArgumentError",
        "flinkish.common.errors.InvalidProgramError",
    ]
    assert pickling.names_in(pickling.dumps([1, "os.system"])) == []


def test_the_attribute_at_fault_is_named_with_its_path() -> None:
    with pytest.raises(NotSerializableError, match=r"the MapFunction.*`part\.part`.*lock"):
        pickling.check_serializable(Holder(Holder(threading.Lock())), "the MapFunction of map()")


def test_a_lock_in_a_closure_is_named_by_its_variable() -> None:
    guard = threading.Lock()
    with pytest.raises(NotSerializableError, match="`guard`"):
        pickling.check_serializable(lambda value: guard, "the function of map()")


def test_a_lock_in_a_list_is_named_by_its_place() -> None:
    with pytest.raises(NotSerializableError, match=r"`part\[1\]`"):
        pickling.check_serializable(Holder([1, threading.Lock()]), "the function")


def test_a_bound_method_of_an_object_that_cannot_travel_is_refused() -> None:
    with pytest.raises(NotSerializableError, match=r"self\.part"):
        pickling.check_serializable(Holder(threading.Lock()).method, "the function")


def test_what_can_travel_is_accepted() -> None:
    pickling.check_serializable(Holder([1, 2]).method, "the function")


def test_a_struct_of_the_script_is_refused_as_its_fields_would_be_lost() -> None:
    local = msgspec.defstruct("Local", [("x", int)], module="__main__")
    with pytest.raises(NotSerializableError, match=r"Local is an msgspec\.Struct of the job script; make it a dataclass"):
        pickling.check_serializable(lambda value: local(value), "the function of map()")


def test_a_cached_function_that_can_be_imported_travels_by_its_name() -> None:
    import fnmatch

    assert pickling.own_copy(fnmatch._compile_pattern, "it") is fnmatch._compile_pattern  # type: ignore[attr-defined]


def test_a_dictionary_of_weak_keys_keeps_what_somebody_still_holds() -> None:
    key = Holder(1)
    copied_key, copied = pickling.own_copy((key, weakref.WeakKeyDictionary({key: "a"})), "it")
    assert dict(copied) == {copied_key: "a"}


@pytest.mark.parametrize(
    "error",
    [
        FlinkishError("a", hint="b"),
        InvalidArgumentError("a", hint="b"),
        ConfigurationError("x"),
        CheckpointError("y"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_with_their_text(error: FlinkishError) -> None:
    copied = pickling.loads(pickling.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)


def test_a_function_that_is_pickled_by_value_keeps_its_file() -> None:
    copied = pickling.own_copy(lambda value: value + 1, "it")
    assert copied(1) == 2
    assert copied.__code__.co_filename == __file__
