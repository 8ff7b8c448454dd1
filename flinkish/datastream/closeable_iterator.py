"""The result of execute_and_collect: an iterator over the records of a running job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Self

from flinkish.common.job_client import JobClient
from flinkish.datastream.shapes import T_co

__all__ = ["CloseableIterator"]


class CloseableIterator(Generic[T_co]):
    """Iterates over the records that a job emits while it runs; it is a context manager.

    It ends when the job has finished, and raises the job's error if it fails. Closing it earlier cancels the job.

    Example:

        >>> with env.from_collection([1, 2, 3]).execute_and_collect() as numbers:
        ...     numbers.next(), sum(numbers)
        (1, 5)
    """

    def __init__(self, client: JobClient, results: Iterator[T_co]) -> None:
        #: The client of the job, for savepoints and figures while records are read; PyFlink has no such attribute.
        self.client = client
        self._results = results
        self._ended = False

    def __repr__(self) -> str:
        return f"<CloseableIterator of {self.client!r}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        return self.next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next(self) -> T_co:
        """Wait for the next record and return it. Raises StopIteration at the end."""
        if self._ended:
            raise StopIteration("No more data.")
        try:
            return next(self._results)
        except BaseException as error:
            # At the end or after a failure there is no running job; after an interrupted wait there is one, which close()
            # cancels.
            self._ended = isinstance(error, Exception)
            raise

    def close(self) -> None:
        """Cancel the job unless it has ended, and wait for its end."""
        if not self._ended:
            self._ended = True
            self.client.cancel().result()
