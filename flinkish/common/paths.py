"""Paths and URLs given by users, parsed as Flink's and Hadoop's Path classes do: '#' and '?' are part of a name."""

from __future__ import annotations

import posixpath
import re
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import unquote

#: `a:b` may be a file name with a colon, so a scheme must be followed by a slash, or be `file`.
_URL = re.compile(r"((?i:file)(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=:/)):(?://([^/]*))?(.*)", re.DOTALL)
_LOCAL_HOSTS = ("", "localhost")
#: Characters with a meaning in the patterns of Hadoop's GlobPattern, and their escaped form.
_SPECIAL_IN_PATTERN = re.compile(r"[\\*?\[\]{},]")
_ESCAPED = r"\\\g<0>"


class Location(NamedTuple):
    """The parts of a path or URL, as written; scheme and host are empty if missing."""

    scheme: str
    host: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether this is a file of this machine: a plain path, or a file: URL whose host is empty or localhost."""
        return self.scheme == "" or (self.scheme == "file" and self.host in _LOCAL_HOSTS)

    @property
    def file(self) -> str:
        """The path of a file of this machine; escapes (%20) are resolved in a URL, but not in a plain path."""
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


def hadoop_url(path: PurePath | str, *, pattern: bool = False) -> str:
    r"""Return the URL of an absolute path of this machine as Hadoop's Path class, and so Spark, reads it: without escapes.

    `pattern`: for a reader of Spark, which takes a path for a pattern.

    >>> hadoop_url("/a b%c"), hadoop_url("/a[1]", pattern=True)
    ('file:///a b%c', 'file:///a\\[1\\]')
    """
    text = str(path)
    return f"file://{re.sub(_SPECIAL_IN_PATTERN, _ESCAPED, text) if pattern else text}"


def as_flink_shows(text: str) -> str:
    """Return a path as Flink's Path prints it: without double slashes, `.`, `..` and a trailing slash; `file:///a` is `file:/a`.

    Source of the rule: org.apache.flink.core.fs.Path. Differs from Flink: backslashes are kept.

    >>> as_flink_shows("file:///tmp//a/../b/"), as_flink_shows("s3://bucket/a/")
    ('file:/tmp/b', 's3://bucket/a')
    """
    scheme, host, path = location(text.strip())
    if path:
        path = posixpath.normpath(re.sub("/+", "/", path))
    return (f"{scheme}:" if scheme else "") + (f"//{host}" if host else "") + path
