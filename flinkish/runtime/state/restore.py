"""Reads a checkpoint's files: checks them, selects the rows of a subtask, and fills tables when their state is requested.

It is imported only in the first epoch of a restored attempt, because it imports Arrow.
"""

from __future__ import annotations

import decimal
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common.conversion import same
from flinkish.common.errors import CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.files.schemes import files_at, is_safe
from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.common.type_data import type_of_data
from flinkish.common.type_evolution import evolve
from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.key_groups import key_group_range
from flinkish.runtime.keys import PLAIN, CanonicalKey, as_key, may_be_wrapped, original_key
from flinkish.runtime.protocol import Restore, StateFile
from flinkish.runtime.state import rows, tables
from flinkish.runtime.state.backend import Table
from flinkish.runtime.state.codec import Codec, decode_plain, decode_untyped, encode_untyped, structure_of
from flinkish.runtime.state.columns import binary_column, decode_all, freeze_all, in_range, key_groups_of, split_lists
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.state.tables import Address, Namespaced, StateAddress, TableMeta

#: Classes of keys (in the form of tables) whose key groups are the same in all versions of flinkish.
_SETTLED = PLAIN | {tuple, float, decimal.Decimal}


@dataclass(slots=True)
class RestoredRows:
    """The rows of one state by their kind, not decoded yet, and the declaration of the state.

    In addition to the stored columns, each row has a column that says whether it is trusted, so that pickled values in it may be
    decoded.
    """

    declaration: rows.Declaration
    by_kind: dict[str, pa.Table]

    @property
    def trusted(self) -> bool:
        """Whether all rows are trusted."""
        return all(pc.all(table[TRUSTED], min_count=0).as_py() for table in self.by_kind.values())

    def untrusted(self) -> RestoredRows:
        """Return the rows that are not trusted."""
        by_kind = {
            # Usually none or all of the rows are trusted: if none is, they need not be copied.
            kind: table.filter(pc.invert(table[TRUSTED])) if pc.any(table[TRUSTED], min_count=0).as_py() else table
            for kind, table in self.by_kind.items()
        }
        return RestoredRows(self.declaration, by_kind)

    def __reduce__(self) -> tuple[Any, ...]:
        # In Arrow's stream format, because Arrow pickles all of the table that rows were taken from.
        streams: dict[str, bytes] = {}
        for kind, table in self.by_kind.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            streams[kind] = sink.getvalue().to_pybytes()
        return _unpickled, (self.declaration.encode(), streams)


def _unpickled(declaration: bytes, streams: Mapping[str, bytes]) -> RestoredRows:
    by_kind = {kind: pa.ipc.open_stream(stream).read_all() for kind, stream in streams.items()}
    return RestoredRows(rows.Declaration.decode(declaration), by_kind)


#: The columns that are the same in all rows of a row group, as SnapshotWriter writes them, and the columns that are read.
_SAME = ("operator_uid", "state_name", "state_kind")
_READ = ["key_group", "key", "namespace", "user_key", "value"]
#: The column that is added to them; see RestoredRows.
TRUSTED = "trusted"


def category_of(kind: str) -> str:
    """Return the name space, within an operator, to which a kind of state belongs."""
    if kind in (rows.TIMER_EVENT, rows.TIMER_PROCESSING, tables.TIMERS):
        return tables.TIMERS
    return "operator" if kind in (tables.OPERATOR_LIST, tables.OPERATOR_UNION, tables.OPERATOR_BROADCAST) else "keyed"


def read_state(restore: Restore, requests: Sequence[RestoreRequest]) -> dict[StateAddress, RestoredRows]:
    """Read the rows of all requests, from the files that may contain such rows.

    Each file is checked against the size and the SHA-256 of the manifest before anything in it is decoded. Raises
    CorruptCheckpointError if one is missing, changed or unreadable.
    """
    by_uid = {str(request.uid): request for request in requests}
    parts: dict[StateAddress, dict[str, list[pa.Table]]] = {}
    declarations: dict[StateAddress, rows.Declaration] = {}
    #: The checkpoints that the rows of each state were written for.
    sources: defaultdict[StateAddress, set[CheckpointId]] = defaultdict(set)
    for file in sorted(restore.files, key=lambda file: file.checkpoint_id):
        wanted = [by_uid[uid] for uid in file.operator_uids if uid in by_uid]
        if any(_overlaps(file, request) for request in wanted):
            for address in _read_file(restore, file, by_uid, parts, declarations):
                sources[address].add(file.checkpoint_id)
    restored: dict[StateAddress, RestoredRows] = {}
    for address, by_kind in parts.items():
        declaration = declarations.get(address)
        if declaration is None:
            raise CorruptCheckpointError(f"state {address[2]!r} of operator {address[0]} has rows but no schema row")
        joined = {kind: pa.concat_tables(tables_of_kind) for kind, tables_of_kind in by_kind.items()}
        replaced = len(sources[address]) > 1 or any(table["value"].null_count for table in joined.values())
        if replaced and address[1] != "operator":
            joined = {kind: _current_rows(table, timers=address[1] == tables.TIMERS) for kind, table in joined.items()}
        if address[1] == "operator":
            request = by_uid[address[0]]
            joined = {kind: _redistribute(table, kind, request, restore.parallelism) for kind, table in joined.items()}
        if any(table.num_rows for table in joined.values()):
            restored[address] = RestoredRows(declaration, joined)
    return restored


def _current_rows(table: pa.Table, *, timers: bool) -> pa.Table:
    """Leave out rows of one kind of a state that later ones replace or remove.

    A replaced value keeps its place, one that was removed before has a new place: so the entries of a map keep their order.
    """
    table = _wide(table)
    member = pc.coalesce(table["user_key"], table["value"]) if timers else table["user_key"]
    # Encodings mark their own end, so no two different rows have the same bytes.
    parts = [part.fill_null(b"") for part in (table["key"], table["namespace"], member)]
    same = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary())).combine_chunks().dictionary_encode().indices
    identity, position = same.to_numpy(), np.arange(len(table))
    has_value = table["value"].is_valid().to_numpy()
    count = int(identity.max(initial=-1)) + 1
    last, removed, first = np.full(count, -1), np.full(count, -1), np.full(count, len(table))
    np.maximum.at(last, identity, position)
    np.maximum.at(removed, identity[~has_value], position[~has_value])
    put = position > removed[identity]
    np.minimum.at(first, identity[put], position[put])
    there = has_value[last]
    return table.take(pa.array(last[there][np.argsort(first[there], kind="stable")]))


def _overlaps(file: StateFile, request: RestoreRequest) -> bool:
    first, last = file.key_groups
    if first == rows.NO_KEY_GROUP:
        return True  # it contains operator state, which every subtask reads
    if not request.keyed:
        return True  # it contains keyed state, perhaps of this operator, which is refused
    groups = key_group_range(request.subtask, request.max_parallelism, request.parallelism)
    return first < groups.stop and last >= groups.start


def open_checked(restore: Restore, file: StateFile) -> pq.ParquetFile:
    if not is_safe(file.path):
        raise CorruptCheckpointError(
            f"checkpoint {restore.checkpoint_id} names the state file {file.path!r}, which is outside of it"
        )
    files = files_at(restore.root)
    try:
        size = files.size(file.path)
        # The size is compared first, so that a wrong file is not read into memory.
        data = files.read(file.path, limit=size) if size == file.size else b""
    except OSError as error:
        raise CorruptCheckpointError(
            f"the state file {file.path} of checkpoint {restore.checkpoint_id} cannot be read: {error.strerror or error}",
            hint="restore from another checkpoint, by execution.state-recovery.path.",
        ) from error
    if size != file.size:
        raise _corrupt(restore, file, f"expected {file.size} bytes; got {size}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != file.sha256:
        raise _corrupt(restore, file, f"expected SHA-256 {file.sha256}; got {digest}")
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _corrupt(restore, file, f"it is not a Parquet file: {error}") from error
    if not parquet.schema_arrow.equals(rows.state_schema()) or parquet.metadata.num_rows != file.rows:
        raise _corrupt(
            restore,
            file,
            f"expected {file.rows} rows with the columns {list(rows.COLUMNS)}; "
            f"got {parquet.metadata.num_rows} rows of {parquet.schema_arrow.names}",
        )
    return parquet


def _corrupt(restore: Restore, file: StateFile, what: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the state file {file.path} of checkpoint {restore.checkpoint_id} is damaged: {what}",
        hint="nothing was restored; restore from another checkpoint, by execution.state-recovery.path.",
    )


def _read_file(
    restore: Restore,
    file: StateFile,
    requests: Mapping[str, RestoreRequest],
    parts: dict[StateAddress, dict[str, list[pa.Table]]],
    declarations: dict[StateAddress, rows.Declaration],
) -> set[StateAddress]:
    """Add the rows of a file and their declarations to those of the files before it; return whose rows were added."""
    parquet = open_checked(restore, file)
    declared: dict[StateAddress, rows.Declaration] = {}
    found: list[tuple[StateAddress, str, pa.Table]] = []
    try:
        for group in range(parquet.num_row_groups):
            for uid, name, kind, table in _uniform_parts(parquet, group, requests):
                if kind == rows.SCHEMA:
                    for value in table["value"].to_pylist():
                        declaration = rows.Declaration.decode(value)
                        address = (uid, category_of(declaration.kind), name)
                        _check_format(declaration, address, requests[uid])
                        declared[address] = declaration
                elif table.num_rows:
                    found.append(((uid, category_of(kind), name), kind, table))
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(restore, file, f"its rows cannot be read: {error}") from error
    for address in {address for address, _, _ in found} & declared.keys():
        declaration = declared[address]
        other = declarations.setdefault(address, declaration)
        alike = (other.structure, other.ttl) == (declaration.structure, declaration.ttl)
        if not alike or _changed_fields(other.fields, declaration.fields):
            raise ForeignCheckpointError(
                f"state {address[2]!r} of operator {address[0]} cannot be restored at this parallelism: some subtasks have "
                f"stored it as {_described(other)}, others as {_described(declaration)}, in checkpoint {restore.checkpoint_id}",
                hint="its declaration was changed, and not all subtasks had asked for it when the checkpoint was taken. Start at "
                "the old parallelism with a program that asks for it in open(), and go on from a checkpoint of that.",
            )
    for address, kind, table in found:
        trusted = restore.pickle_allowed and address in declared and declared[address].trusted
        marked = table.append_column(TRUSTED, pa.repeat(pa.scalar(trusted), table.num_rows))
        parts.setdefault(address, {}).setdefault(kind, []).append(marked)
    return {address for address, _, _ in found}


def _described(declaration: rows.Declaration) -> str:
    return f"{declaration.description} with{'' if declaration.ttl else 'out'} time-to-live"


def _uniform_parts(
    parquet: pq.ParquetFile, group: int, requests: Mapping[str, RestoreRequest]
) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Return the requested rows of a row group, with their operator, state and kind.

    Operator, state and kind are taken from the statistics if they are the same in all rows, so that three columns need not be
    read (a restore of a million rows takes half the time).
    """
    uid, name, kind = [_only_value(parquet.metadata.row_group(group).column(rows.COLUMNS.index(column))) for column in _SAME]
    if uid is not None and name is not None and kind is not None:
        if uid in requests:
            # Without threads: one of Arrow's that still holds Python's bytes when the program ends would abort the process.
            table = parquet.read_row_group(group, columns=_READ, use_threads=False)
            yield uid, name, kind, _in_groups(table, requests[uid])
        return
    for uid, name, kind, table in _parts_of(parquet.read_row_group(group, use_threads=False)):
        if uid in requests:
            yield uid, name, kind, _in_groups(table.select(_READ), requests[uid])


def parts_of_file(restore: Restore, file: StateFile) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Return all rows of a file, with all columns, in parts with their operator, state and kind."""
    parquet = open_checked(restore, file)
    for group in range(parquet.num_row_groups):
        yield from _parts_of(parquet.read_row_group(group, use_threads=False))


def merged_parts(restore: Restore) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Return the rows of all files, as `parts_of_file`, without those that later ones replace; schema rows come first."""
    found: dict[tuple[str, str, str], list[pa.Table]] = {}
    for file in sorted(restore.files, key=lambda file: file.checkpoint_id):
        for uid, name, kind, table in parts_of_file(restore, file):
            found.setdefault((uid, name, kind), []).append(table)
    for (uid, name, kind), parts in sorted(found.items(), key=lambda each: each[0][2] != rows.SCHEMA):
        table = pa.concat_tables(parts)
        if kind == rows.SCHEMA:
            _, first = np.unique(np.array(table["value"].to_pylist(), dtype=object), return_index=True)
            table = table.take(pa.array(np.sort(first)))
        elif category_of(kind) != "operator":
            table = _current_rows(table, timers=category_of(kind) == tables.TIMERS)
        yield uid, name, kind, table


def _parts_of(table: pa.Table) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Return the rows of a row group for each operator, state and kind."""
    for values in table.group_by(list(_SAME), use_threads=False).aggregate([]).to_pylist():
        chosen = table
        for column, value in values.items():
            chosen = chosen.filter(pc.equal(chosen[column], value))
        uid, name, kind = (values[column] for column in _SAME)
        yield uid, name, kind, chosen


def _wide(table: pa.Table) -> pa.Table:
    """Return a table with 64-bit offsets, because `take` combines many row groups into one chunk, which may exceed 2 GiB."""
    fields = [field.with_type(pa.large_binary()) if field.type == pa.binary() else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _only_value(column: Any) -> str | None:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max or statistics.null_count or statistics.min != statistics.max:
        return None
    value: str = statistics.min
    return value


def _in_groups(table: pa.Table, request: RestoreRequest) -> pa.Table:
    """Select the rows of a subtask's key groups, and rows without a key."""
    column = table["key_group"]
    limits = pc.min_max(column).as_py()
    if limits["max"] == rows.NO_KEY_GROUP:
        return table
    if not request.keyed:
        raise ForeignCheckpointError(
            f"operator {request.uid} has keyed state in the checkpoint, but its input is not keyed in this program, so that "
            "state would be lost",
            hint="put key_by() in front of it again; or give the operator another uid, to start without that state.",
        )
    groups = key_group_range(request.subtask, request.max_parallelism, request.parallelism)
    if limits["min"] in groups and limits["max"] in groups:
        return table
    return table.filter(pc.or_(pc.equal(column, rows.NO_KEY_GROUP), in_range(column, groups)))


def _check_format(declaration: rows.Declaration, address: StateAddress, request: RestoreRequest) -> None:
    uid, category, name = address
    if declaration.format != rows.FORMAT:
        raise ForeignCheckpointError(
            f"state {name!r} of operator {uid} is stored in format {declaration.format}; this version reads format {rows.FORMAT}"
        )
    if category != "operator" and declaration.max_parallelism != request.max_parallelism:
        raise ForeignCheckpointError(
            f"operator {uid} has max parallelism {request.max_parallelism}, but its state {name!r} was stored with "
            f"{declaration.max_parallelism}: its keys belong to other key groups",
            hint="set the max parallelism to what it was when the checkpoint was taken; it cannot be changed with state.",
        )


def _redistribute(table: pa.Table, kind: str, request: RestoreRequest, parallelism: Mapping[OperatorUid, int]) -> pa.Table:
    """Select a subtask's share of operator state.

    Of a list: its own elements if the parallelism is the same, else every n-th element. Of a union list: all elements. Of
    broadcast state: its own copy; a new subtask gets a copy of an old one, round-robin.
    """
    if kind == tables.OPERATOR_BROADCAST:
        owner = encode_untyped(request.subtask % parallelism.get(request.uid, request.parallelism))
        return table.filter(pc.equal(table["namespace"], pa.scalar(owner, table.schema.field("namespace").type)))
    positions = [tuple(decode_plain(data)) for data in table["user_key"].to_pylist()]
    order = sorted(range(len(positions)), key=positions.__getitem__)
    if kind == tables.OPERATOR_LIST:
        if parallelism.get(request.uid) == request.parallelism:
            order = [index for index in order if positions[index][0] == request.subtask]
        else:
            order = order[request.subtask :: request.parallelism]
    return _wide(table).take(pa.array(order, pa.int64()))


def fill(table: Table, uid: str, name: str, restored: RestoredRows, now: Callable[[], int]) -> None:
    """Decode restored rows into an empty table; convert values to the declared type if that keeps their meaning.

    Raises ForeignCheckpointError if the state was declared differently, CorruptCheckpointError if values cannot be decoded, or
    are pickled in rows that are not trusted.
    """
    declaration, meta = restored.declaration, table.meta
    evolution, reason = None, ""
    try:
        evolution = _evolution(declaration, meta)
    except ValueError as error:
        reason = f": {error}"
    if evolution is None and declaration.structure != meta.structure():
        raise ForeignCheckpointError(
            f"state {name!r} of operator {uid} cannot be restored: it was stored as {declaration.description}, "
            f"but is declared as {meta}{reason}",
            hint="declare it as it was, or give the state another name to start empty.",
        )
    changed = [] if evolution is not None else _changed_fields(declaration.fields, meta.fields())
    if changed:
        raise ForeignCheckpointError(
            f"state {name!r} of operator {uid} cannot be restored: it was stored as {declaration.description}, but is declared "
            f"as {meta}; values are stored by position, so the values of {', '.join(changed)}",
            hint="declare the fields with their old names in their old order, or give the state another name to start empty.",
        )
    trusted = restored.trusted
    try:
        untrusted = restored if trusted else restored.untrusted()
        if any(untrusted.by_kind[kind].num_rows < part.num_rows for kind, part in restored.by_kind.items()):
            # Trusted and untrusted rows are mixed: first read the untrusted ones alone, to check that nothing in them is pickled.
            _Reader(meta, untrusted, evolution, now, trusted=False).read()
            trusted = True
        loaded = _Reader(meta, restored, evolution, now, trusted=trusted).read()
    except (CorruptCheckpointError, ForeignCheckpointError) as error:
        raise type(error)(f"state {name!r} of operator {uid}: {error}") from error
    into: Any = table
    if meta.kind == tables.TIMERS:
        event_time, processing_time = loaded
        into.event_time.load(event_time)
        into.processing_time.load(processing_time)
    else:
        into.load(*loaded)


#: The type in which values are stored, and how they become values of the declared type.
_Evolution = tuple[TypeInformation, Callable[[Any], Any]]


def _evolution(declaration: rows.Declaration, meta: TableMeta) -> _Evolution | None:
    """Return how values are converted, if their type has changed; raise ValueError if that would change their meaning."""
    changed = (declaration.structure, declaration.fields) != (meta.structure(), meta.fields())
    if not changed or declaration.types is None or declaration.kind != meta.kind or not meta.types:
        return None
    *keys, value = map(type_of_data, declaration.types)
    if declaration.key_type is not None:
        keys.append(type_of_data(declaration.key_type))
    declared_keys = [*meta.types[:-1], *([] if meta.key_type is None else [meta.key_type])]
    for before, now in zip(keys, declared_keys, strict=True):
        evolve(before, now)
        if structure_of(before) != structure_of(now):
            raise ValueError(f"keys of type {before!r} cannot become keys of type {now!r}")
    convert = evolve(value, meta.types[-1])
    if convert is None and structure_of(value) == structure_of(meta.types[-1]):
        return None
    return value, convert or same


def _changed_fields(stored: Sequence[Sequence[str]], declared: Sequence[Sequence[str]]) -> list[str]:
    """Describe the fields of rows whose values would be read under another name.

    Rows without names may get names, and lose them: their fields are f0, f1, ...
    """
    return [
        f"{old!r} would become those of {new!r}"
        for before, now in zip(stored, declared, strict=True)
        if not (_unnamed(before) or _unnamed(now)) or not set(before).isdisjoint(now)
        for old, new in zip(before, now, strict=True)
        if old != new
    ]


def _unnamed(fields: Sequence[str]) -> bool:
    return list(fields) == [f"f{position}" for position in range(len(fields))]


def _all_plain(keys: list[Any]) -> bool:
    kinds = set(map(type, keys))
    return PLAIN.issuperset(kinds) or (kinds == {tuple} and PLAIN.issuperset(map(type, chain.from_iterable(keys))))


class _Reader:
    def __init__(
        self, meta: TableMeta, restored: RestoredRows, evolution: _Evolution | None, now: Callable[[], int], *, trusted: bool
    ) -> None:
        self._meta = meta
        self._by_kind = restored.by_kind
        self._trusted = trusted
        #: Whether the stored values have a time-to-live.
        self._stamped = restored.declaration.ttl
        self._evolution = evolution
        self._now = now
        self._codec = Codec(meta.types[-1], ttl=meta.ttl) if meta.types else tables.LONG_CODEC
        #: Whether there are CanonicalKeys among the keys read last.
        self._wrapped = False

    @property
    def _rows(self) -> pa.Table:
        """Return all rows of a state whose rows have one kind."""
        return self._by_kind[self._meta.kind]

    def _addresses(self, table: pa.Table) -> list[Address]:
        assert self._meta.key_type is not None
        codec = Codec(self._meta.key_type, trusted=self._trusted)
        keys = decode_all(codec, table["key"])
        if may_be_wrapped(self._meta.key_type) and not _all_plain(keys):
            given, keys = keys, list(map(as_key, keys))
            self._wrapped = CanonicalKey in set(map(type, keys))
            # Keys of other classes have never changed their group.
            classes = zip(map(type, keys), map(type, given), strict=True)
            doubtful = [index for index, (kind, before) in enumerate(classes) if kind not in _SETTLED or before is bytearray]
            if doubtful:
                self._check_groups([keys[index] for index in doubtful], table["key_group"].take(pa.array(doubtful, pa.int64())))
        namespaces = table["namespace"]
        if namespaces.null_count == len(namespaces):
            return keys
        # Decoding is cached, because many keys have the same windows.
        decode = cache(decode_untyped if self._trusted else decode_plain)
        return [
            key if namespace is None else Namespaced(key, decode(namespace))
            for key, namespace in zip(keys, namespaces.to_pylist(), strict=True)
        ]

    def _check_groups(self, keys: Sequence[Any], stored: pa.ChunkedArray) -> None:
        """Refuse keys that would be looked up in another key group than the one in which they are stored."""
        elsewhere = pc.not_equal(key_groups_of(keys, self._meta.max_parallelism), stored.combine_chunks())
        if pc.any(elsewhere).as_py():
            raise ForeignCheckpointError(
                f"{pc.sum(elsewhere).as_py()} of its keys do not belong to the key group that they are stored in, "
                f"such as {original_key(keys[pc.index(elsewhere, True).as_py()])!r}: "
                "another version of flinkish hashed such objects in another way",
                hint="start this operator without its state, under another uid.",
            )

    def _frozen(self, column: pa.ChunkedArray) -> list[Any]:
        """Return values in their frozen form, of the type and with the time-to-live as declared now; check untrusted ones."""
        codec, stamped = self._codec, self._stamped
        if stamped != codec.ttl or self._evolution is not None:
            now = self._now()
            type_info, convert = self._evolution or (codec.type_info, same)
            before = Codec(type_info, ttl=stamped, trusted=self._trusted)

            def recoded(value: Any) -> bytes:
                stamp, plain = value if stamped else (now, value)
                plain = None if plain is None else convert(plain)
                return codec.encode((stamp, plain) if codec.ttl else plain)

            column = pa.chunked_array([binary_column(list(map(recoded, decode_all(before, column))))])
        elif codec.pickles and not self._trusted:
            decode_all(Codec(codec.type_info, ttl=codec.ttl, trusted=False), column)
        return freeze_all(codec, column)

    def _distinct(self, table: pa.Table) -> list[Address]:
        """Return the addresses of rows; raises an error if an address occurs twice."""
        addresses = self._addresses(table)
        if self._wrapped and len(set(addresses)) < len(addresses):
            raise ForeignCheckpointError(
                "some of its keys are equal, such as NaN within a tuple, or Rows with the same fields in another order: "
                "another version of flinkish took each of them for a key of its own",
                hint="start this operator without its state, under another uid.",
            )
        return addresses

    def read(self) -> tuple[Any, ...]:
        """Return the arguments of the `load` method of a table of this kind; for timers, those of both queues."""
        match self._meta.kind:
            case tables.VALUE | tables.REDUCING | tables.AGGREGATING:
                return self._distinct(self._rows), self._values()
            case tables.LIST:
                return self._distinct(self._rows), split_lists(self._rows["value"], self._frozen)
            case tables.OPERATOR_LIST | tables.OPERATOR_UNION:
                elements = self._values()
                return ([tables.OPERATOR_ADDRESS], [elements]) if elements else ([], [])
            case tables.MAP:
                user_keys, values = self._user_keys(), self._values()
                return self._addresses(self._rows), user_keys, values
            case tables.OPERATOR_BROADCAST:
                user_keys = self._user_keys()
                return [tables.OPERATOR_ADDRESS] * len(user_keys), user_keys, self._values()
            case tables.TIMERS:
                return self._timers(rows.TIMER_EVENT), self._timers(rows.TIMER_PROCESSING)
            case _:
                raise AssertionError(f"state of kind {self._meta.kind!r} is in no checkpoint")

    def _values(self) -> list[Any]:
        return self._frozen(self._rows["value"])

    def _user_keys(self) -> list[Any]:
        return decode_all(Codec(self._meta.types[0], trusted=self._trusted), self._rows["user_key"])

    def _timers(self, kind: str) -> dict[int, list[Address]]:
        timers: dict[int, list[Address]] = {}
        chosen = self._by_kind.get(kind)
        if chosen is not None:
            timestamps = decode_all(tables.LONG_CODEC, chosen["value"])
            for timestamp, address in zip(timestamps, self._addresses(chosen), strict=True):
                timers.setdefault(timestamp, []).append(address)
        return timers
