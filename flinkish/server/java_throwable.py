"""Failures in the form that Flink's command line expects: a SerializedThrowable in Java serialization, written without Java.

The layout is that of the Java Object Serialization Specification, version 2; names and ids of the classes are Flink's and Java's.
"""

from __future__ import annotations

import base64
import struct

from flinkish.common.redaction import redact
from flinkish.server.answers.jobs import FailureCause

_STREAM_HEADER = b"\xac\xed\x00\x05"
_NULL, _OBJECT, _CLASS, _STRING, _ARRAY, _END, _LONG_STRING = b"\x70", b"\x73", b"\x72", b"\x74", b"\x75", b"\x78", b"\x7c"
_SERIALIZABLE, _WITH_WRITE_METHOD = 2, 3
_SHORT_LIMIT = 65_536


def failure_cause(error: str, text: str) -> FailureCause:
    """Return a failure with its class name and its text, which may have several lines; secrets in the text are hidden."""
    text = redact(text)
    first = text.partition("\n")[0]
    message = first if first.startswith(error) else f"{error}: {first}"
    return FailureCause(class_=error, stack_trace=text, serialized_throwable=serialized_throwable(error, message, text))


def serialized_throwable(name: str, message: str, text: str) -> str:
    """Return a SerializedThrowable in base64: the name of the original class, the message, and the whole text."""
    throwable = _class(
        "java.lang.Throwable",
        0xD5C635273977B8CB,
        _WITH_WRITE_METHOD,
        (
            (b"L", "cause", "Ljava/lang/Throwable;"),
            (b"L", "detailMessage", "Ljava/lang/String;"),
            (b"[", "stackTrace", "[Ljava/lang/StackTraceElement;"),
            (b"L", "suppressedExceptions", "Ljava/util/List;"),
        ),
        _NULL,
    )
    exception = _class("java.lang.Exception", 0xD0FD1F3E1A3B1CC4, _SERIALIZABLE, (), throwable)
    fields = (
        (b"L", "fullStringifiedStackTrace", "Ljava/lang/String;"),
        (b"L", "originalErrorClassName", "Ljava/lang/String;"),
        (b"[", "serializedException", "[B"),
    )
    own = _class("org.apache.flink.util.SerializedThrowable", 7_284_183_123_441_947_635, _SERIALIZABLE, fields, exception)
    no_bytes = _ARRAY + _class("[B", 0xACF317F8060854E0, _SERIALIZABLE, (), _NULL) + struct.pack(">I", 0)
    # The fields of Throwable, its end mark, then those of SerializedThrowable.
    values = _NULL + _string(message) + _NULL + _NULL + _END + _string(text) + _string(name) + no_bytes
    return base64.b64encode(_STREAM_HEADER + _OBJECT + own + values).decode()


def _class(name: str, uid: int, flags: int, fields: tuple[tuple[bytes, str, str], ...], parent: bytes) -> bytes:
    described = b"".join(kind + _utf(field) + _string(signature) for kind, field, signature in fields)
    return _CLASS + _utf(name) + struct.pack(">QBH", uid, flags, len(fields)) + described + _END + parent


def _string(text: str) -> bytes:
    encoded = _modified_utf8(text)
    if len(encoded) < _SHORT_LIMIT:
        return _STRING + struct.pack(">H", len(encoded)) + encoded
    return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded


def _utf(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return struct.pack(">H", len(encoded)) + encoded


def _modified_utf8(text: str) -> bytes:
    """Encode as Java does: the zero character in two bytes, characters beyond 16 bits as two surrogates of three bytes each."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2))
    return b"".join(b"\xc0\x80" if code == 0 else chr(code).encode("utf-8", "surrogatepass") for code in codes)
