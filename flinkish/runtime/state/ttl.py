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

from flinkish.runtime.state.backend import ExpiringTable, MapTable
from flinkish.runtime.state.tables import Address
from flinkish.udf.state import StateTtlConfig

#: Entries that the sweep of an epoch checks, in addition to a few for each that the epoch changed; they take 0.3 ms.
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


class _View:
    """A table whose values are stamped when they are put, and hidden or removed when they are expired."""

    def __init__(self, table: Any, policy: TtlPolicy, now: Callable[[], int]) -> None:
        self._table = table
        self._policy = policy
        self._now = now


class ExpiringValues(_View):
    """See ValueTable."""

    def get(self, address: Address) -> Any:
        stamped = self._table.get(address)
        if stamped is None:
            return None
        (stamp, value), now = stamped, self._now()
        if self._policy.is_expired(stamp, now):
            self._table.remove(address)
            return None if self._policy.hide_expired else value
        if self._policy.renew_on_read and stamp != now:
            self._table.put(address, (now, value))
        return value

    def put(self, address: Address, value: Any) -> None:
        self._table.put(address, (self._now(), value))

    def remove(self, address: Address) -> None:
        self._table.remove(address)


class ExpiringLists(_View):
    """See ListTable; each element has a time stamp."""

    def get(self, address: Address) -> list[Any]:
        now, policy = self._now(), self._policy
        stamped = self._table.get(address)
        alive = [(stamp, value) for stamp, value in stamped if not policy.is_expired(stamp, now)]
        if policy.renew_on_read and any(stamp != now for stamp, _ in alive):
            self._table.replace(address, [(now, value) for _, value in alive])
        elif len(alive) < len(stamped):
            self._table.replace(address, alive)
        return [value for _, value in (alive if policy.hide_expired else stamped)]

    def append(self, address: Address, value: Any) -> None:
        self._table.append(address, (self._now(), value))

    def replace(self, address: Address, values: Iterable[Any]) -> None:
        now = self._now()
        self._table.replace(address, [(now, value) for value in values])

    def remove(self, address: Address) -> None:
        self._table.remove(address)


class ExpiringMaps(_View):
    """See MapTable; each entry has a time stamp."""

    def __init__(self, table: MapTable, policy: TtlPolicy, now: Callable[[], int]) -> None:
        super().__init__(table, policy, now)
        self.codec, self.key_codec = table.codec, table.key_codec

    def _visible(self, address: Address, key: Any, stamped: tuple[int, Any] | None, now: int) -> bool:
        """Apply the policy to a read of an entry; return whether there is one that may be seen."""
        if stamped is None:
            return False
        stamp, value = stamped
        if self._policy.is_expired(stamp, now):
            self._table.remove(address, key)
            return not self._policy.hide_expired
        if self._policy.renew_on_read and stamp != now:
            self._table.put(address, key, (now, value))
        return True

    def get(self, address: Address, key: Any) -> Any:
        stamped = self._table.get(address, key)
        return stamped[1] if self._visible(address, key, stamped, self._now()) else None

    def contains(self, address: Address, key: Any) -> bool:
        return self._visible(address, key, self._table.get(address, key), self._now())

    def put(self, address: Address, key: Any, value: Any) -> None:
        self._table.put(address, key, (self._now(), value))

    def remove(self, address: Address, key: Any) -> None:
        self._table.remove(address, key)

    def entries(self, address: Address) -> list[tuple[Any, Any]]:
        now = self._now()
        return [(key, stamped[1]) for key, stamped in self._table.entries(address) if self._visible(address, key, stamped, now)]

    def members(self, address: Address) -> Iterator[Any]:
        return iter([key for key, _ in self.entries(address)])

    def has(self, address: Address) -> bool:
        return bool(self.entries(address))

    def clear(self, address: Address) -> None:
        self._table.clear(address)


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
            self._round = self._table.addresses()
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
