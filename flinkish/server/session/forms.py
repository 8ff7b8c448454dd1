"""Reads the file in a multipart form, as browsers and Flink's clients send it."""

from __future__ import annotations

import re
from email.message import Message

from flinkish.server.rest.calls import RestError

_BOUNDARY = re.compile(r"[A-Za-z0-9'()+_,./:=? -]{1,70}")


def read_file(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Return the name and the content of the one file in a form; raises RestError 400 if the form is malformed."""
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not _BOUNDARY.fullmatch(boundary):
        raise RestError(400, "Expected a file in a form (Content-Type: multipart/form-data; boundary=...).")
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    if len(parts) < 3 or not parts[-1].startswith(b"--"):
        raise RestError(400, "The form is not complete.")
    files = []
    for part in parts[1:-1]:
        head, separator, content = part.partition(b"\r\n\r\n")
        name = _file_name(head)
        if separator and name is not None:
            files.append((name, content))
    if len(files) != 1:
        raise RestError(400, f"Exactly 1 file must be sent, received {len(files)}.")
    return files[0]


def _file_name(head: bytes) -> str | None:
    """Return the file name in the headers of a part, as it was sent; None if the part is not a file."""
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            message = Message()
            message["Content-Disposition"] = value.strip()
            name = message.get_filename()
            return name
    return None
