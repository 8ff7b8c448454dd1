"""A stand-in for Google Cloud Storage and Azure Blob Storage, in memory, for the requests that obstore and delta-rs send.

No emulator of Google's XML interface can be installed by pip, and Azure's emulator needs Node. The stand-in follows the stores'
rules for conditional writes (a generation or an ETag must match, or the object must not exist), and answers lists in pages. It
checks that a request has credentials, but not which.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from flinkish.common.configuration import Configuration
from tests.kit.http import handled_by

ACCOUNT_KEY = base64.b64encode(b"key of the storage account").decode()
PAGE = 20
_DATE = formatdate(0, usegmt=True)


@dataclass
class Cloud:
    """The objects of all buckets and containers, by `bucket/key`."""

    folder: Path
    port: int = 0
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    parts: dict[str, dict[str, bytes]] = field(default_factory=dict)
    #: (method, path, headers) of all requests, with names in small letters.
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    #: Objects that lists do not show yet, and objects that lists still show although they were deleted.
    unlisted: set[str] = field(default_factory=set)
    ghosts: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def configuration(self) -> Configuration:
        """The configuration of a job that uses it; Azure's address is in AZURE_STORAGE_ENDPOINT."""
        key = self.folder / "gs.json"
        key.write_text(
            json.dumps({"gcs_base_url": f"http://127.0.0.1:{self.port}", "disable_oauth": True, "client_email": ""} | _NO_KEY)
        )
        return Configuration.from_dict(
            {
                "gs.auth.service.account.json.keyfile": str(key),
                "fs.azure.account.key.mine.dfs.core.windows.net": ACCOUNT_KEY,
            }
        )

    @property
    def azure_endpoint(self) -> str:
        """The address of the storage account `mine`."""
        return f"http://127.0.0.1:{self.port}/mine"


_NO_KEY = {"private_key": "", "private_key_id": ""}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    """Run a server in a thread."""
    cloud = Cloud(folder)
    handler = type("Handler", (_Handler,), {"cloud": cloud})
    with handled_by(handler) as cloud.port:
        yield cloud


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: An answer is one packet: TCP would hold the second one back for 40 ms.
    wbufsize = -1
    cloud: Cloud

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.asked = {name.lower(): value for name, value in self.headers.items()}
        length = int(self.asked.get("content-length", 0))
        body = self.rfile.read(length) if length else b""
        path = unquote(url.path).strip("/")
        self.azure = path.startswith("mine/")
        name = path.removeprefix("mine/") if self.azure else path
        with self.cloud.lock:
            self.cloud.requests.append((self.command, self.path, self.asked))
            if self.azure and "authorization" not in self.asked:
                self._answer(403)
            elif self.query.get("comp") == "batch":
                self._batch(body)
            elif self.command == "GET" and ("list-type" in self.query or self.query.get("comp") == "list"):
                self._list(name)
            elif "uploads" in self.query or "uploadId" in self.query or self.query.get("comp") in ("block", "blocklist"):
                self._in_parts(name, body)
            else:
                getattr(self, f"_{self.command.lower()}")(name, body)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = _handle

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _version(self, name: str) -> dict[str, str]:
        generation = str(self.cloud.objects[name][1])
        return {"ETag": f'"{generation}"', "x_goog_generation": generation, "Last_Modified": _DATE}

    def _refused(self, name: str) -> int | None:
        """Return the status if a condition of the request does not hold."""
        found = self.cloud.objects.get(name)
        wanted = self.asked.get("x-goog-if-generation-match")
        if wanted is not None and wanted != ("0" if found is None else str(found[1])):
            return 412
        if self.asked.get("if-none-match") == "*" and found is not None:
            return 409 if self.azure else 412
        tag = self.asked.get("if-match")
        if tag is not None and (found is None or tag != f'"{found[1]}"'):
            return 412
        return None

    def _write(self, name: str, content: bytes) -> None:
        refused = self._refused(name)
        if refused is not None:
            self._answer(refused, b"<Error><Code>ConditionNotMet</Code></Error>")
            return
        self.cloud.objects[name] = (content, next(self.cloud.numbers))
        self._answer(201 if self.azure else 200, **self._version(name))

    def _put(self, name: str, body: bytes) -> None:
        source = self.asked.get("x-goog-copy-source")
        if source is None:
            self._write(name, body)
        elif (found := self.cloud.objects.get(unquote(source).strip("/"))) is None:
            self._answer(404)
        else:
            self._write(name, found[0])

    def _get(self, name: str, body: bytes) -> None:
        found = self.cloud.objects.get(name)
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif (refused := self._refused(name)) is not None:
            self._answer(refused)
        else:
            content, size = found[0], len(found[0])
            given = re.fullmatch(r"bytes=(\d*)-(\d*)", self.asked.get("range", ""))
            if given is None:
                self._answer(200, content, Content_Length=str(size), **self._version(name))
                return
            first, last = int(given[1]), min(int(given[2] or size), size - 1)
            if first >= size:
                self._answer(416)
                return
            span = {"Content_Range": f"bytes {first}-{last}/{size}"}
            self._answer(206, content[first : last + 1], **span, **self._version(name))

    _head = _get

    def _delete(self, name: str, body: bytes) -> None:
        found = self.cloud.objects.pop(name, None)
        self._answer(404 if found is None else 202 if self.azure else 204)

    def _batch(self, body: bytes) -> None:
        """Delete several blobs, as Azure does."""
        parts = []
        for number, path in enumerate(re.findall(r"^DELETE (\S+)", body.decode(), re.MULTILINE)):
            name = unquote(urlsplit(path).path).strip("/").removeprefix("mine/")
            status = "404 Not Found" if self.cloud.objects.pop(name, None) is None else "202 Accepted"
            head = f"Content-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}"
            parts.append(f"--b\r\n{head}\r\nx-ms-version: 2018-11-09\r\n\r\n\r\n")
        answer = ("".join(parts) + "--b--\r\n").encode()
        self._answer(202, answer, Content_Type="multipart/mixed; boundary=b")

    def _list(self, bucket: str) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        after = self.query.get("continuation-token") or self.query.get("marker") or self.query.get("start-after", "")
        names = (self.cloud.objects.keys() - self.cloud.unlisted) | self.cloud.ghosts
        keys = sorted(name.removeprefix(f"{bucket}/") for name in names if name.startswith(f"{bucket}/{prefix}"))
        entries: dict[str, bool] = {}
        for key in keys:
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            entries[prefix + head + delimiter if found else key] = bool(found)
        begin = self.query.get("startFrom", "")
        page = [(name, is_folder) for name, is_folder in entries.items() if name > after and name >= begin][:PAGE]
        last = page[-1][0] if page and page[-1][0] != list(entries)[-1] else ""
        self._answer(200, (_azure_page if self.azure else _google_page)(self.cloud, bucket, page, last).encode())

    def _in_parts(self, name: str, body: bytes) -> None:
        parts = self.cloud.parts.setdefault(name, {})
        if "uploads" in self.query:
            parts.clear()
            self._answer(200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
        elif self.command == "PUT" and self.query.get("comp") != "blocklist":
            number = self.query.get("partNumber") or self.query["blockid"]
            parts[number] = body
            self._answer(201 if self.azure else 200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif self.command == "DELETE":
            parts.clear()
            self._answer(204)
        else:
            order = re.findall(r"<(?:PartNumber|Uncommitted|Latest)>([^<]+)<", body.decode())
            self.cloud.objects[name] = (b"".join(parts.pop(each) for each in order), next(self.cloud.numbers))
            version = self._version(name)
            answer = f"<CompleteMultipartUploadResult><ETag>{version['ETag']}</ETag></CompleteMultipartUploadResult>"
            self._answer(201 if self.azure else 200, b"" if self.azure else answer.encode(), **version)


def _listed(cloud: Cloud, name: str) -> tuple[int, str]:
    """Return size and ETag of an object in a list."""
    content, generation = cloud.objects.get(name, (b"gone", 1))
    return len(content), f'"{generation}"'


def _google_page(cloud: Cloud, bucket: str, page: list[tuple[str, bool]], last: str) -> str:
    rows = ""
    for name, is_folder in page:
        size, tag = _listed(cloud, f"{bucket}/{name}")
        date = "<LastModified>1970-01-01T00:00:00.000Z</LastModified>"
        whole = f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size>{date}<ETag>{tag}</ETag></Contents>"
        rows += f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" if is_folder else whole
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
    return f"<ListBucketResult>{rows}{token}</ListBucketResult>"


def _azure_page(cloud: Cloud, bucket: str, page: list[tuple[str, bool]], last: str) -> str:
    rows = ""
    for name, is_folder in page:
        size, tag = _listed(cloud, f"{bucket}/{name}")
        facts = f"<Last-Modified>{_DATE}</Last-Modified><Content-Length>{size}</Content-Length><Content-Type/><Etag>{tag}</Etag>"
        whole = f"<Blob><Name>{escape(name)}</Name><Properties>{facts}<BlobType>BlockBlob</BlobType></Properties></Blob>"
        rows += f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" if is_folder else whole
    return f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{escape(last)}</NextMarker></EnumerationResults>"


def environment(cloud: Cloud) -> Mapping[str, str]:
    """Return the variables of the environment that a process needs in addition to the configuration."""
    return {"AZURE_STORAGE_ENDPOINT": cloud.azure_endpoint}
