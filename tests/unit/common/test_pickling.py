"""Programs travel to other processes by value; what cannot travel is named."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import pickling
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    FlinkishError,
    InvalidArgumentError,
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


def test_classes_of_the_script_are_found_again_in_the_other_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    data = tmp_path / "program"
    back = tmp_path / "back"
    script.write_text(
        textwrap.dedent(f"""
            import pathlib, subprocess, sys
            from flinkish.common import pickling

            class Point:
                def __init__(self, x): self.x = x

            pathlib.Path({str(data)!r}).write_bytes(pickling.dump_program(lambda x: Point(x)))
            receiver = '''
            import pathlib
            from flinkish.common import pickling
            make = pickling.load_program(pathlib.Path({str(data)!r}).read_bytes())
            pathlib.Path({str(back)!r}).write_bytes(pickling.dumps(make(5)))
            '''
            subprocess.run([sys.executable, "-c", "\\n".join(line.strip() for line in receiver.splitlines())], check=True)
            point = pickling.loads(pathlib.Path({str(back)!r}).read_bytes())
            assert type(point) is Point and point.x == 5
        """),
        encoding="utf-8",
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)


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
