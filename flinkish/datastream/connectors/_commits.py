"""What committers compare with the commits that their target remembers, and the errors if these do not fit the job."""

from __future__ import annotations

from flinkish.common.errors import SinkChangedError, SinkError
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, checkpoint_name


def check_repeated(who: str, target: str, checkpoint_id: int, committed: int, *, same: bool, advanced: bool) -> None:
    """Raise an error unless a target whose last commit is not the last one of this driver holds the rows of a checkpoint.

    `committed`: the checkpoint of that commit. `same`: whether its rows were the same. `advanced`: whether the job itself may
    have made it, because it was started from a savepoint of the lineage.
    """
    if committed < checkpoint_id or (committed > checkpoint_id and not advanced):
        why = "another driver process runs the same job, or a copy of its checkpoint folder"
        raise overtaken(who, target, checkpoint_id, committed, why)
    # At the end of the input of a job without checkpoints, an earlier attempt of this job may have committed the same rows.
    if committed == checkpoint_id != END_OF_INPUT_CHECKPOINT and not same:
        raise SinkChangedError(
            f"{who} cannot commit {checkpoint_name(checkpoint_id)} to {target}: another job has committed other rows under the "
            "same id",
            hint="it goes on from a copy of this job's checkpoint folder; start one of them from a savepoint instead.",
        )


def overtaken(
    who: str,
    target: str,
    checkpoint_id: int,
    committed: int,
    why: str = "a job that was started from the same savepoint is running",
) -> SinkError:
    """Return the error for a target whose last commit was made by another driver; `why` begins the hint."""
    return SinkError(
        f"{who} cannot commit {checkpoint_name(checkpoint_id)} to {target}: it holds the rows of {checkpoint_name(committed)} "
        "already, which this driver has not committed",
        hint=f"{why}; stop all but one.",
    )


def lost_commits(
    who: str, target: str, *, last: int, found: int | None, content: str = "rows", advice: str = ""
) -> SinkChangedError:
    """Return the error for a target that knows of the commit `found` (None = of none), although the job had committed `last`.

    `advice` follows the hint.
    """
    if found is None:
        knows, lost, old = "none of its commits", f"all {content} that it wrote there", "or start the job without a checkpoint"
    else:
        knows, lost = checkpoint_name(found), f"the {content} of all later checkpoints, up to {checkpoint_name(last)},"
        old = f"or start the job from {checkpoint_name(found)} or a savepoint that is as old"
    return SinkChangedError(
        f"{who}: the job had committed {checkpoint_name(last)} to {target}, which knows of {knows}: {lost} are lost, and would "
        "not be written again",
        hint=f"was it removed, or restored from a backup? Bring its last state back and start the job again; {old}.{advice}",
    )
