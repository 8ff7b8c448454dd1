"""Time-to-live: values are kept as pairs (time of last use in milliseconds, value) and expire by processing time.

A value is expired when its time plus the time-to-live is not after now (Flink's TtlUtils). List elements and map entries expire
one by one. Expired values are removed when a read comes across them, a part of the state is swept in each epoch, and all of it
before a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from flinkish.runtime.state.backend import ExpiringTable
from flinkish.udf.state import StateTtlConfig

#: Entries looked at by each epoch's sweep, beside a few for each that the epoch changed: bounds what it adds to an epoch (0.3
#: ms).
_SWEEP_LEAST = 1_000
_SWEEP_PER_CHANGE = 5

_stamp_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlPolicy:
    """A StateTtlConfig in the form that tables need. `milliseconds` is how long values live."""

    milliseconds: int
    renew_on_read: bool
    hide_expired: bool
    background: bool

    @staticmethod
    def of(config: StateTtlConfig | None) -> TtlPolicy | None:
        """Return the policy of a configuration, None if values do not expire."""
        if config is None or not config.is_enabled():
            return None
        return TtlPolicy(
            milliseconds=config.get_ttl().to_milliseconds(),
            renew_on_read=config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            hide_expired=config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired,
            background=config.get_cleanup_strategies().is_cleanup_in_background(),
        )

    def is_expired(self, stamp: int, now: int) -> bool:
        """Return whether a value that was last used at `stamp` is expired."""
        return stamp + self.milliseconds <= now


class Sweeper:
    """Removes expired values of a table, a part of it in each call."""

    def __init__(self, table: ExpiringTable, policy: TtlPolicy, now: Callable[[], int]) -> None:
        self._table = table
        self._policy = policy
        self._now = now
        self._round: Iterator[Any] = iter(())

    def sweep_part(self, changed: int) -> None:
        """Check some entries; the more entries changed in the epoch, the more are checked."""
        if not self._policy.background:
            return
        limit = _SWEEP_LEAST + _SWEEP_PER_CHANGE * changed
        addresses = list(islice(self._round, limit))
        if len(addresses) < limit:
            self._round = iter(self._table.addresses())
        self._sweep(addresses)

    def sweep_all(self) -> None:
        """Check all entries."""
        self._sweep(self._table.addresses())

    def _sweep(self, addresses: Iterable[Any]) -> None:
        is_expired, now = self._policy.is_expired, self._now()
        self._table.drop_expired(addresses, lambda frozen: is_expired(_stamp(frozen), now))


def _stamp(frozen: Any) -> int:
    stamp: int = _stamp_decoder.decode(frozen)[0] if frozen.__class__ is bytes else frozen[0]
    return stamp
