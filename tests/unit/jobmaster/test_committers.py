from __future__ import annotations

import msgspec
import pytest

from flinkish.checkpoint.manifest import Committable
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SinkError
from flinkish.common.ids import OperatorUid
from flinkish.jobmaster.committers import Committers
from flinkish.jobmaster.program_parts import SinkNode

from .support import JOB_ID, SINK, Notes


def committers(**sinks: Notes) -> Committers:
    nodes = [SinkNode(uid=OperatorUid(uid), name=uid, parallelism=1, sink=sink) for uid, sink in sinks.items()]
    return Committers(nodes, Configuration())


def committable(uid: str, value: object) -> Committable:
    return Committable(operator_uid=OperatorUid(uid), subtask=0, data=msgspec.msgpack.encode(value))


def test_each_sink_gets_its_own_and_is_called_with_nothing_too() -> None:
    one, two = Notes(), Notes()
    committers(one=one, two=two).commit(3, [committable("one", "a"), committable("one", "b")], JOB_ID)
    assert (one.commits, two.commits) == ([(3, ["a", "b"])], [(3, [])])


def test_an_error_names_the_sink_and_the_checkpoint() -> None:
    sink = Notes()
    sink.fail.append(OSError("disk full"))
    expected = r"sink 'one' \(uid one\): committing 1 committables of checkpoint 3 failed: OSError: disk full"
    with pytest.raises(SinkError, match=expected):
        committers(one=sink).commit(3, [committable("one", "a")], JOB_ID)


def test_a_committable_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(SinkError, match="does not fit its committable_type"):
        committers(one=Notes()).commit(3, [committable("one", {"file": 1})], JOB_ID)


def test_what_no_sink_commits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    committers(one=Notes(committing=False)).commit(3, [committable(SINK, "a")], JOB_ID)
    assert "which commit nothing" in caplog.text


def test_all_committers_are_closed() -> None:
    one, two = Notes(), Notes()
    committers(one=one, two=two).close()
    assert (one.closed, two.closed) == (1, 1)
