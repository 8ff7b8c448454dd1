"""Input formats, the arguments of StreamExecutionEnvironment.create_input."""

from __future__ import annotations

from typing import Any

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.errors import UnsupportedError


class InputFormat:
    """A description of a source; in PyFlink it wraps a Java class. See AvroInputFormat (flinkish.datastream.formats.avro)."""

    get_java_object = AbsentMember(JAVA_OBJECT)

    def __init__(self, *_: Any) -> None:
        if type(self).create_source is InputFormat.create_source:
            raise UnsupportedError(
                "InputFormat wraps a Java class, and flinkish runs no Java user code",
                hint="read files with FileSource, or write a Source (flinkish.datastream.connectors.base).",
            )

    def create_source(self) -> Any:
        """Return the source that reads this input."""
        raise NotImplementedError(f"{type(self).__name__} must implement create_source()")
