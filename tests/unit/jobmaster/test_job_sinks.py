from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.checkpoint.manifest import CheckpointKind, Committable, Manifest
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SinkError
from flinkish.common.ids import CheckpointId, Generation, LineageId, OperatorUid
from flinkish.jobmaster import program_parts
from flinkish.jobmaster.job_sinks import JobSinks
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.program.sinks import Committer

from ..checkpoint.support import LINEAGE, coordinator_state
from .support import JOB_ID, SINK, Job, Notes, Numbers


def committers(**sinks: Notes) -> JobSinks:
    nodes = [SinkNode(uid=OperatorUid(uid), name=uid, sink=sink) for uid, sink in sinks.items()]
    made = JobSinks(nodes, Configuration(), JOB_ID, LINEAGE)
    made.start()
    return made


class Unreachable(Notes):
    def create_committer(self, configuration: Configuration) -> Committer[str]:
        raise OSError("no route to host")


def test_an_attempt_whose_committers_cannot_all_be_made_closes_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(Numbers((0, 5)))
    nodes = program_parts.sinks(job.setup.plan.job_graph)
    more = (*nodes, SinkNode(uid=OperatorUid("two"), name="two", sink=Unreachable()))
    monkeypatch.setattr(program_parts, "sinks", lambda graph: more)
    job.run()
    assert "no route to host" in str(job.error)
    assert job.sink.closed == 1


def stored(manifest: Manifest, *, trusted: bool = True) -> StoredCheckpoint:
    return StoredCheckpoint(manifest=manifest, root=Path("/table"), version=1, manifest_path="manifest", trusted=trusted)


def committable(uid: str, value: object) -> Committable:
    return Committable(operator_uid=OperatorUid(uid), subtask=0, data=msgspec.msgpack.encode(value))


def test_each_sink_gets_its_own_and_is_called_with_nothing_too() -> None:
    one, two = Notes(), Notes()
    committers(one=one, two=two).commit(3, [committable("one", "a"), committable("one", "b")], JOB_ID, LINEAGE)
    assert (one.commits, two.commits) == ([(3, ["a", "b"])], [(3, [])])


def test_an_error_names_the_sink_and_the_checkpoint() -> None:
    sink = Notes()
    sink.fail.append(OSError("disk full"))
    expected = r"sink 'one' \(uid one\): committing 1 committables of checkpoint 3 failed: OSError: disk full"
    with pytest.raises(SinkError, match=expected):
        committers(one=sink).commit(3, [committable("one", "a")], JOB_ID, LINEAGE)


def test_a_committable_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(SinkError, match="does not fit its committable_type"):
        committers(one=Notes()).commit(3, [committable("one", {"file": 1})], JOB_ID, LINEAGE)


def test_what_no_sink_commits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    committers(one=Notes(committing=False)).commit(3, [committable(SINK, "a")], JOB_ID, LINEAGE)
    assert "which commit nothing" in caplog.text


def test_a_checkpoint_with_what_no_sink_commits_is_refused_unless_it_may_be_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A sink that commits was replaced by one that does not, under the same uid."""
    manifest = dataclasses.replace(checkpoint(LINEAGE), committables=(committable("one", "a"),))
    with pytest.raises(ForeignCheckpointError, match=r"data that the sinks one prepared and that this program does not commit"):
        committers(one=Notes(committing=False)).restore(stored(manifest))
    configuration = Configuration().set_string("execution.state-recovery.ignore-unclaimed-state", "true")
    JobSinks([], configuration, JOB_ID, LINEAGE).restore(stored(manifest))
    assert "which commit nothing" in caplog.text


def test_all_committers_are_closed() -> None:
    one, two = Notes(), Notes()
    committers(one=one, two=two).close()
    assert (one.closed, two.closed) == (1, 1)


def checkpoint(lineage: LineageId, extra: dict[str, bytes] | None = None) -> Manifest:
    return Manifest(
        job_id=JOB_ID,
        lineage=lineage,
        generation=Generation(1),
        checkpoint_id=CheckpointId(3),
        kind=CheckpointKind.PERIODIC,
        trigger_time=0,
        completion_time=0,
        coordinator=dataclasses.replace(coordinator_state(), extra=extra or {}),
        committables=(committable("one", "a"),),
        files=(),
    )


def test_sinks_learn_what_checkpoint_they_go_on_from_before_it_is_committed_again() -> None:
    one, two = Notes(), Notes()
    sinks = committers(one=one, two=two)
    sinks.restore(stored(checkpoint(LineageId("other"))))
    assert one.restored == two.restored == [(3, "other", False)]
    assert (one.commits, one.lineages) == ([(3, ["a"])], {"other"})
    sinks.restore(stored(checkpoint(LINEAGE)))
    assert one.restored[-1] == (3, LINEAGE, True)


def test_a_sink_that_refuses_the_checkpoint_is_named_and_nothing_is_committed() -> None:
    one, two = Notes(), Notes()
    two.refuse = ForeignCheckpointError("the sink is ahead")
    with pytest.raises(ForeignCheckpointError, match=r"sink 'two' \(uid two\): the sink is ahead"):
        committers(one=one, two=two).restore(stored(checkpoint(LINEAGE)))
    two.refuse = OSError("no such host")
    with pytest.raises(SinkError, match="going on from checkpoint 3 failed: OSError: no such host"):
        committers(one=one, two=two).restore(stored(checkpoint(LINEAGE)))
    assert one.commits == []


def test_a_committer_gets_back_what_it_kept_if_the_checkpoint_is_trusted() -> None:
    one, two = Notes(), Notes()
    sinks = committers(one=one, two=two)
    assert sinks.snapshot() == {}
    one.state = b"kept"
    extra = sinks.snapshot()
    sinks.restore(stored(checkpoint(LINEAGE, extra)))
    sinks.restore(stored(checkpoint(LINEAGE, extra), trusted=False))
    assert (one.restored_states, two.restored_states) == ([b"kept", None], [None, None])


def test_the_running_commit_is_named_also_when_it_is_repeated_at_a_restore() -> None:
    class Slow(Notes):
        def create_committer(self, configuration: Configuration) -> Any:
            committer = super().create_committer(configuration)
            commit = committer.commit

            def commit_and_look(checkpoint_id: int, requests: Any) -> None:
                seen.append(made.committing)
                commit(checkpoint_id, requests)

            committer.commit = commit_and_look
            return committer

    seen: list[str | None] = []
    made = committers(one=Slow())

    made.restore(stored(checkpoint(LINEAGE)))

    assert seen == [f"committing checkpoint {checkpoint(LINEAGE).checkpoint_id} to sink 'one' (uid one)"]
    assert made.committing is None
