"""Rows of Spark hold what the slots gave, and commands come back from the property as they went in."""

from __future__ import annotations

import gc
import os
import socket
import sys
from types import SimpleNamespace
from typing import IO, NoReturn

import pytest

from flinkish.engine.spark import shim
from flinkish.engine.spark.groups import to_arrow


def test_level_zero_wakes_its_slot_at_every_deeper_level() -> None:
    (packed,) = shim._wake_rows(5, 3)
    rows = to_arrow(packed).to_pylist()
    assert [(row["slot"], row["level"], row["edge"]) for row in rows] == [(5, 1, shim.WAKE), (5, 2, shim.WAKE)]
    assert list(shim._wake_rows(5, 1)) == []


def test_only_the_first_task_of_a_worker_freezes_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    shim._prepare_worker()
    assert not frozen, "this process is no worker"
    monkeypatch.setitem(sys.modules, "pyspark.worker", SimpleNamespace(handle_worker_exception=print, main=print))
    shim._prepare_worker()
    shim._prepare_worker()
    assert frozen == [True]


@pytest.mark.parametrize("fails", [True, False], ids=["a task that fails", "a task that ends"])
def test_a_worker_whose_connection_ends_during_a_task_ends_quietly(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: object, outfile: IO[bytes]) -> None:
        outfile.write(b"some")

    class EndedError(BaseException):
        pass

    def end(status: int) -> NoReturn:
        raise EndedError(status)

    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(os, "_exit", end)
    worker = SimpleNamespace(handle_worker_exception=write, main=write)
    monkeypatch.setitem(sys.modules, "pyspark.worker", worker)
    shim._prepare_worker()
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as infile:
        outfile = ours.makefile("wb")
        worker.main(infile, outfile)
        assert theirs.recv(4) == b"some"
        theirs.close()
        with pytest.raises(EndedError):
            worker.handle_worker_exception(RuntimeError(), outfile) if fails else worker.main(infile, outfile)
        with pytest.raises(BrokenPipeError):
            outfile.close()  # its buffer still holds what could not be sent


@pytest.mark.parametrize("command", [b"", b"\x00\xff" * 100])
def test_a_command_in_the_property_is_decoded_to_the_same_bytes(command: bytes) -> None:
    assert shim.decode_command(shim.encode_command(command)) == (command, None)


def test_a_command_in_a_file_is_decoded_to_its_path() -> None:
    assert shim.decode_command(shim.encode_command_file("/scratch/a:b")) == (b"", "/scratch/a:b")
