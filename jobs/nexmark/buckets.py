"""The folders of q10."""

from __future__ import annotations

from flinkish.datastream.connectors import BucketAssigner


class ByMinute(BucketAssigner):
    """Folders of q10: those of the date, and in them those of the minute."""

    def get_bucket_id(self, element: tuple, context: BucketAssigner.Context) -> str:
        return f"dt={element[5]}/hm={element[6]}"
