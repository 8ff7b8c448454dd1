"""The error of a sink whose target has gone back: it no longer holds what the job had committed."""

from __future__ import annotations

from flinkish.common.errors import SinkChangedError
from flinkish.program.sinks import checkpoint_name


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
