"""Names of PyFlink that flinkish does not have: each is refused with a way out, by an error that Python's own tools understand.

Which names PyFlink has was recorded from its sources, of 2.3.0 and of 1.20.1, by record_pyflink_names.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pickle
import pydoc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import flinkish
from flinkish.common import absent_names
from flinkish.common.absent import AbsentMember, absence_of
from flinkish.common.errors import AbsentImportError, AbsentMemberError, AbsentModuleError, UnsupportedError
from flinkish.datastream import KeyedStream, StreamExecutionEnvironment, connectors
from flinkish.datastream.connectors import pulsar

_RECORDED: dict[str, dict[str, dict[str, list[str] | None]]] = json.loads(
    Path(__file__).with_name("pyflink_names.json").read_text()
)
#: Connectors that Flink has for Java only.
_ONLY_IN_JAVA = ("dynamodb", "hbase", "mongodb")
_WAY_OUT = re.compile(r" is not supported.*: \w.*\.\nHint: \w.*\.\Z", re.DOTALL)


def _ours(module: str) -> ModuleType | None:
    """Return flinkish's module in the place of one of PyFlink; one that is not there must say why."""
    name = module.replace("pyflink", "flinkish", 1)
    try:
        return importlib.import_module(name)
    except AbsentModuleError as error:
        refusal = str(error)
    assert _WAY_OUT.search(refusal), refusal
    return None


def _unexplained(recorded: dict[str, dict[str, list[str] | None]]) -> Iterator[str]:
    for module, names in recorded.items():
        ours = _ours(module)
        for name, members in names.items():
            if ours is None:
                continue
            if not hasattr(ours, name):
                if not _is_refused(ours, name):
                    yield f"{ours.__name__}.{name}"
                continue
            for member in members or ():
                owner = getattr(ours, name)
                refusal = inspect.getattr_static(owner, member, None)
                if not hasattr(owner, member) and not isinstance(refusal, AbsentMember):
                    yield f"{ours.__name__}.{name}.{member}"


def _is_refused(module: ModuleType, name: str) -> bool:
    texts = []
    for attempt in (lambda: getattr(module, name), lambda: exec(f"from {module.__name__} import {name}", {})):
        try:
            attempt()
        except (AbsentMemberError, AbsentImportError) as error:
            texts.append(f"{type(error).__name__} {error}")
        except (AttributeError, ImportError):
            return False
    assert [text.partition(" ")[0] for text in texts] in (
        ["AbsentMemberError", "AbsentImportError"],
        ["AbsentMemberError", "AbsentModuleError"],
    )
    return all(_WAY_OUT.search(text) for text in texts)


@pytest.mark.parametrize("version", list(_RECORDED))
def test_every_name_of_pyflink_is_there_or_refused_with_a_way_out(version: str) -> None:
    assert list(_unexplained(_RECORDED[version])) == []


def test_a_name_that_nobody_knows_is_not_refused_by_a_reason() -> None:
    known = {"pyflink.datastream": {"StreamExecutionEnvironment": ["execute", "brew_coffee"], "Teapot": None}}

    assert list(_unexplained(known)) == [  # type: ignore[arg-type]
        "flinkish.datastream.StreamExecutionEnvironment.brew_coffee",
        "flinkish.datastream.Teapot",
    ]


@pytest.mark.parametrize("keyed", [False, True], ids=["stream", "keyed stream"])
def test_names_of_spark_and_java_on_a_stream_are_refused_with_the_method_to_use(keyed: bool) -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    stream = stream.key_by(lambda number: number) if keyed else stream
    for name, absence in absent_names.NAMES_ON_STREAMS.items():
        if keyed and "key_by" in absence.see and hasattr(KeyedStream, name):
            continue  # only streams without keys lack it
        assert not hasattr(stream, name)
        with pytest.raises(AbsentMemberError, match=re.escape(absence.see)):
            getattr(stream, name)


def test_a_window_without_keys_says_that_key_by_comes_first() -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(AbsentMemberError, match=r"no keys.*\n.*key_by\(lambda record: ...\)\.window"):
        stream.window  # noqa: B018


def test_names_of_flinks_java_api_are_refused_with_the_name_to_use() -> None:
    with pytest.raises(ImportError, match="use MapFunction"):
        from flinkish.datastream import RichMapFunction  # type: ignore[attr-defined] # noqa: F401
    with pytest.raises(ImportError, match="use ReduceFunction"):
        from flinkish.datastream.functions import RichReduceFunction  # type: ignore[attr-defined] # noqa: F401
    with pytest.raises(ImportError, match="KeyedProcessFunction"):
        importlib.import_module("flinkish.cep")


def test_no_reason_has_outlived_its_cause() -> None:
    """Each is about a name that PyFlink has, or had, and that flinkish has not."""
    names = {
        f"{module}.{name}".removeprefix("pyflink.")
        for recorded in _RECORDED.values()
        for module, known in recorded.items()
        for name in ("", *known)
    }
    names = {name.rstrip(".") for name in names}
    # Left out of the record, or of packages of their own.
    java = {key for key in absent_names.ABSENT if key == "cep" or ".Rich" in key}
    elsewhere = {*java, "dataset", "fn_execution", "ml", *(f"datastream.connectors.{name}" for name in _ONLY_IN_JAVA)}
    there = []
    for key in absent_names.ABSENT:
        module, _, name = key.rpartition(".")
        parent = _ours(f"pyflink.{module}".rstrip("."))
        is_module = key == "table" or f"pyflink.{key}" in _RECORDED["2.3"]
        if parent is not None and not is_module and hasattr(parent, name):
            there.append(key)

    assert sorted({*absent_names.ABSENT, *absent_names.MODULES} - names - elsewhere) == []
    assert there == []
    assert [module for module in absent_names.MODULES if absence_of(module) is None] == []


def test_an_absent_module_is_a_module_that_is_not_found() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"module flinkish\.table\.udf is not supported: there is no Table API"
    ) as caught:
        importlib.import_module("flinkish.table.udf")

    assert caught.value.name == "flinkish.table.udf"
    assert isinstance(caught.value, UnsupportedError)
    assert "flinkish.table.udf" not in sys.modules


@pytest.mark.parametrize(("module", "client"), [("dynamodb", "boto3"), ("hbase", "happybase"), ("mongodb", "pymongo")])
def test_a_connector_that_only_java_has_is_refused_with_the_client(module: str, client: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"which is Java code\.\nHint: .* the package {client}; .*recipes\.md"):
        importlib.import_module(f"flinkish.datastream.connectors.{module}")


def test_a_module_that_nobody_knows_is_not_found_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'flinkish.teapot'$"):
        importlib.import_module("flinkish.teapot")
    assert importlib.util.find_spec("flinkish.teapot") is None


def test_an_absent_name_of_the_top_package_is_refused_in_a_from_import() -> None:
    with pytest.raises(ImportError, match=r"flinkish\.java_gateway is not supported: there is no gateway"):
        exec("from flinkish import java_gateway", {})
    with pytest.raises(AttributeError, match=r"flinkish\.java_gateway is not supported"):
        getattr(flinkish, "java_gateway")  # noqa: B009


def test_hasattr_getattr_and_completion_take_an_absent_name_for_one_that_is_not_there() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    assert not hasattr(pulsar, "PulsarSource")
    assert getattr(connectors, "PulsarSource", None) is None
    assert not hasattr(env, "set_stream_time_characteristic")
    assert not hasattr(StreamExecutionEnvironment, "set_stream_time_characteristic")
    assert "set_stream_time_characteristic" not in dict(inspect.getmembers(env))
    assert "PulsarSource" not in dir(connectors)
    assert "get_java_function" not in pydoc.plain(pydoc.render_doc(connectors.Sink)).split("Methods defined here")[0]


def test_probes_of_python_and_pytest_get_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module .* has no attribute '__wrapped__'$") as caught:
        pulsar.__wrapped__  # type: ignore[attr-defined]  # noqa: B018
    assert not isinstance(caught.value, UnsupportedError)
    assert inspect.unwrap(pulsar) is pulsar  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        AbsentMemberError("a", hint="b"),
        AbsentImportError("a", hint="b"),
        AbsentModuleError("a", hint="b", name="flinkish.c"),
    ],
)
def test_the_errors_survive_pickling(error: AbsentImportError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again)) == (type(error), "a\nHint: b")
    assert getattr(again, "name", None) == getattr(error, "name", None)
