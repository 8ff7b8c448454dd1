"""Paths and URLs of files as users give them, read as Flink's and Hadoop's Path does: '#' and '?' are part of a name."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple
from urllib.parse import unquote

#: `a:b` may be a name with a colon, so that a scheme needs a slash behind it, or is `file`.
_URL = re.compile(r"((?i:file)(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=:/)):(?://([^/]*))?(.*)", re.DOTALL)
_LOCAL_HOSTS = ("", "localhost")


class Location(NamedTuple):
    """The parts of a path or URL, as written; scheme and host are empty where there is none."""

    scheme: str
    host: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it names a file of this machine: a plain path, or a file: URL without a host, or with localhost."""
        return self.scheme == "" or (self.scheme == "file" and self.host in _LOCAL_HOSTS)

    @property
    def file(self) -> str:
        """The path of a file of this machine: that of a URL with its escapes (%20) resolved, a plain one as it is."""
        return unquote(re.sub("^/+", "/", self.path)) if self.scheme else self.path


def location(text: str) -> Location:
    """Split a path, or a URL such as `file:///a`, `file:/a` or `s3://bucket/a`.

    >>> location("file:///a#b?c")
    Location(scheme='file', host='', path='/a#b?c')
    >>> location("/a#b"), location("hdfs://host/a")
    (Location(scheme='', host='', path='/a#b'), Location(scheme='hdfs', host='host', path='/a'))
    """
    match = _URL.fullmatch(text)
    return Location("", "", text) if match is None else Location(match[1].lower(), match[2] or "", match[3])


def as_flink_shows(text: str) -> str:
    """Return a path as the text of Flink's Path: without double slashes, `.`, `..` and a slash at the end.

    The source of the rule is org.apache.flink.core.fs.Path: `file:///a` is `file:/a`. Differs in that a backslash stays one.

    >>> as_flink_shows("file:///tmp//a/../b/"), as_flink_shows("s3://bucket/a/")
    ('file:/tmp/b', 's3://bucket/a')
    """
    scheme, host, path = location(text.strip())
    if path:
        path = posixpath.normpath(re.sub("/+", "/", path))
    return (f"{scheme}:" if scheme else "") + (f"//{host}" if host else "") + path
