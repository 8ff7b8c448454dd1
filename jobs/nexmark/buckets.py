"""The folders of q10."""

from __future__ import annotations

from flinkish.datastream.connectors import BucketAssigner


class ByMinute(BucketAssigner):
    """One folder for each date, and in it one for each minute."""

    def get_bucket_id(self, element: tuple, context: BucketAssigner.Context) -> str:
        return f"dt={element[5]}/hm={element[6]}"
