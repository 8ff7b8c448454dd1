"""Objects that stay on the driver, such as a DataFrame or Spark's session: sources and sinks use them, but run in the tasks."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidProgramError
from flinkish.common.ids import random_id


class NeedsDataFrames:
    """Marks a source or sink that works with Spark's DataFrames, and so only on engines that have them."""

    #: What to use on other engines, in the imperative.
    instead: str


class DriverObject:
    """Holds an object of this process. A copy made in this process is the holder itself; one made elsewhere holds nothing."""

    def __init__(self, value: Any, what: str) -> None:
        """`what` names the object for the error of `get`."""
        self._value = value
        self._what = what
        self._key = random_id()
        _held[self._key] = self

    def get(self) -> Any:
        """Return the object; raises InvalidProgramError in another process than the one that made the program."""
        if self._key not in _held:
            raise InvalidProgramError(
                f"{self._what} is an object of the process that made the program, and cannot be used in another one",
                hint="run the program in the process that makes it.",
            )
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return _holder, (self._key, self._what)


_held: weakref.WeakValueDictionary[str, DriverObject] = weakref.WeakValueDictionary()


def _holder(key: str, what: str) -> DriverObject:
    found = _held.get(key)
    if found is not None:
        return found
    empty = DriverObject.__new__(DriverObject)
    empty._value, empty._what, empty._key = None, what, key
    return empty


def open_session(configuration: Configuration) -> tuple[Any, Callable[[], None]]:
    """Return the user's SparkSession, or the one of flinkish, and what gives it back; it is found by name, as engines are.

    Raises EngineError if there is none and none can be made.
    """
    session, release = importlib.import_module("flinkish.engine.spark.session").open_session(configuration)
    return session, release


@contextmanager
def session_settings(session: Any, values: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a SparkSession within the `with` block; then each has its former value, or none, again."""
    before = {key: session.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)
