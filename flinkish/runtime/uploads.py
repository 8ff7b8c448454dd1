"""Snapshots on their way into the files of checkpoints, and the acknowledgements that follow.

Uploads belong to the state that they were taken from: when that is discarded, because a try did not count, so are its uploads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace

from flinkish.common.clock import Clock
from flinkish.common.ids import CheckpointId
from flinkish.runtime import faults
from flinkish.runtime.protocol import Acknowledgement, CheckpointPart, Decline, StateFile

#: Maximum milliseconds that an epoch waits for quick uploads, because an idle job needs a further epoch to acknowledge them.
_GRACE_MS = 500

#: Writes the files of a snapshot.
Write = Callable[[], tuple[StateFile, ...]]


class UploadThread:
    """The thread of a slot that uploads snapshots, one after the other in the order in which they were taken."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flinkish-upload")

    def run(self, write: Write) -> Future[tuple[StateFile, ...]]:
        """Run an upload after those before it."""
        return self._pool.submit(write)

    def close(self) -> None:
        """Wait for the upload that runs; others are not started."""
        self._pool.shutdown(cancel_futures=True)


@dataclass(slots=True)
class _Upload:
    part: CheckpointPart
    files: Future[tuple[StateFile, ...]]
    alignment_ms: float
    snapshot_ms: float = 0.0
    upload_ms: float = 0.0


class Uploads:
    """The uploads of the subtasks of one level. Without a thread, snapshots are written at once."""

    def __init__(self, thread: UploadThread | None, clock: Clock) -> None:
        self._thread = thread
        self._clock = clock
        self._running: list[_Upload] = []
        #: Whether the last upload was so quick that it is worth a wait.
        self._quick = True
        #: The results of the epoch, for its report.
        self.acknowledgements: list[Acknowledgement] = []
        self.declines: list[Decline] = []
        self.uploading: tuple[CheckpointPart, ...] = ()

    def begin_epoch(self, aborted: Collection[CheckpointId]) -> None:
        """Forget the results of the epoch before, and the uploads for checkpoints that were aborted."""
        self.acknowledgements, self.declines, self.uploading = [], [], ()
        for upload in self._running:
            if upload.part.checkpoint_id in aborted:
                upload.files.cancel()
        self._running = [upload for upload in self._running if upload.part.checkpoint_id not in aborted]
        # Committables are taken from the first report, because they must not get lost with this process.
        for upload in self._running:
            upload.part = replace(upload.part, committables={})

    def start(self, part: CheckpointPart, write: Write, *, started: int, alignment_ms: float) -> None:
        """Begin to write the snapshot of one subtask, whose barrier came at `started`."""
        upload = _Upload(part, Future(), alignment_ms)
        frozen = self._clock.monotonic()

        def write_and_note() -> tuple[StateFile, ...]:
            written = write()
            faults.reach(faults.Point.STATE_WRITTEN)
            upload.upload_ms = float(self._clock.monotonic() - frozen)
            return written

        if self._thread is None:
            try:
                upload.files.set_result(write_and_note())
            except OSError as error:
                upload.files.set_exception(error)
            upload.snapshot_ms, upload.upload_ms = float(self._clock.monotonic() - started), 0.0
        else:
            upload.snapshot_ms = float(frozen - started)
            upload.files = self._thread.run(write_and_note)
        self._running.append(upload)

    def end_epoch(self, *, waits: bool) -> None:
        """Collect the results of finished uploads. With `waits`, all are finished first.

        Raises the error of an upload other than OSError, which declines the checkpoint.
        """
        if not self._running:
            return
        seconds = None if waits else _GRACE_MS / 1000 if self._quick else 0
        done, _ = wait([upload.files for upload in self._running], seconds)
        finished = [upload for upload in self._running if upload.files in done]
        self._running = [upload for upload in self._running if upload.files not in done]
        for upload in finished:
            self._report(upload)
        self.uploading = tuple(upload.part for upload in self._running)

    def _report(self, upload: _Upload) -> None:
        part = {each.name: getattr(upload.part, each.name) for each in fields(CheckpointPart)}
        try:
            files = upload.files.result()
        except OSError as error:
            reason = f"{type(error).__name__} while writing state files: {error.strerror or error}"
            self.declines.append(Decline(**part, reason=reason))
        else:
            self._quick = upload.upload_ms <= _GRACE_MS
            self.acknowledgements.append(
                Acknowledgement(
                    **part,
                    files=files,
                    alignment_ms=upload.alignment_ms,
                    snapshot_ms=upload.snapshot_ms,
                    upload_ms=upload.upload_ms,
                )
            )

    def close(self) -> None:
        """Forget all uploads; those that have not begun are not begun."""
        for upload in self._running:
            upload.files.cancel()
        self._running = []
