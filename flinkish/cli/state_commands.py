"""`flinkish state`: shows, compares and repairs the state of savepoints and checkpoints, without their programs."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.connection import errors_printed, with_properties
from flinkish.cli.tables import print_table, size_text, time_text
from flinkish.common.config_file import load_configuration
from flinkish.common.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flinkish.state import SavepointReader, StateTable

_with_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
_with_rows = click.option(
    "-n", "--rows", type=click.IntRange(min=0), default=100, show_default=True, help="Maximum rows shown per state."
)


@click.group("state")
def state() -> None:
    """Look at the state in a savepoint or checkpoint, and write changed copies, without the program that it is of.

    PATH is a savepoint, a job's folder below the checkpoint directory, or `PATH@id` for one of several retained checkpoints.
    Pickled values are not decoded.
    """


def _open(path: str, properties: Sequence[str]) -> SavepointReader:
    from flinkish.state import SavepointReader

    return SavepointReader.read(path, load_configuration(properties, environment=os.environ))


def _command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of this group with -D, whose errors are printed; it may return the exit code."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            with errors_printed():
                sys.exit(function(**arguments) or 0)

        return state.command(name)(with_properties(run))

    return decorate


@_command("list")
@click.argument("path")
@click.argument("uid", required=False)
def list_states(path: str, uid: str | None, properties: tuple[str, ...]) -> None:
    """List the operators of a savepoint and their states, with types and sizes; with UID, those of one operator.

    \b
    flinkish state list /savepoints/savepoint-1b2c3d-0123456789ab
    flinkish state list /checkpoints/1b2c3d4e5f60718293a4b5c6d7e8f901@7 orders
    """
    reader = _open(path, properties)
    manifest = reader.checkpoint.manifest
    click.echo(
        f"{manifest.kind.value} {manifest.checkpoint_id} of job {manifest.coordinator.job_name!r} ({manifest.job_id}), "
        f"{time_text(manifest.completion_time)}, signed by {'our' if reader.checkpoint.trusted else 'another'} key"
    )
    rows = []
    for operator in reader.operators():
        if uid not in (None, operator.uid):
            continue
        at = f"{operator.parallelism} of {operator.max_parallelism}"
        if operator.splits:
            rows.append([operator.uid, at, "", "splits", operator.kind, f"{operator.splits:,}", ""])
        if operator.committables:
            rows.append([operator.uid, at, "", "to be committed", operator.kind, f"{operator.committables:,}", ""])
        for each in reader.states(operator.uid):
            kind = f"{each.kind}, ttl" if each.ttl else each.kind
            shown = each.description.removeprefix(f"{each.kind} state of type ")
            rows.append([operator.uid, at, each.name, kind, shown, f"{each.entries:,}", size_text(each.size)])
    if uid is not None and not rows:
        reader.states(uid)  # an unknown uid is an error
    print_table(["UID", "PARALLELISM", "STATE", "KIND", "TYPE", "ENTRIES", "SIZE"], rows, whole="STATE")


@_command("show")
@click.argument("path")
@click.argument("uid")
@click.argument("name", metavar="[STATE]", required=False)
@click.option("--key", metavar="KEY", help="Show only this key, as the command prints it.")
@click.option("--windows", is_flag=True, help="Show the open windows of a window operator, however it stores them.")
@_with_rows
@_with_json
def show(
    path: str, uid: str, name: str | None, key: str | None, windows: bool, rows: int, as_json: bool, properties: tuple[str, ...]
) -> None:
    """Show the values of a state of an operator, or of all its states.

    \b
    flinkish state show /savepoints/savepoint-1b2c3d-0123456789ab orders count
    flinkish state show --key 'customer 7' /savepoints/savepoint-1b2c3d-0123456789ab orders
    flinkish state show --json PATH orders count | jq .value
    """
    reader = _open(path, properties)
    tables = {"windows": reader.read_windows(uid)} if windows else {}
    shown = [] if windows else [name] if name is not None else [each.name for each in reader.states(uid)]
    tables |= {each: reader.read_state(uid, each) for each in shown}
    for state_name, table in tables.items():
        names = table.type_info.get_field_names()
        if key is not None and "key" not in names:
            continue
        found = (row.as_dict() for row in table if key is None or _shown(row["key"]) == key)
        if as_json:
            for row in found:
                click.echo(_json({**({} if name or windows else {"state": state_name}), **row}))
            continue
        if name is None:
            click.echo(f"{state_name}:")
        some = list(islice(found, rows))
        print_table([column.upper() for column in names], [list(map(_shown, row.values())) for row in some], whole="")
        if len(some) == rows < len(table):
            click.echo(f"The first {rows:,} of {len(table):,} rows; --rows shows more, --json all.")


@_command("diff")
@click.argument("old")
@click.argument("new")
@click.argument("uid", required=False)
@click.argument("name", metavar="[STATE]", required=False)
@_with_rows
@_with_json
def diff(old: str, new: str, uid: str | None, name: str | None, rows: int, as_json: bool, properties: tuple[str, ...]) -> int:
    """Show what differs between two savepoints or checkpoints by key: of all operators, of one, or of one state.

    Lines begin with + for what only NEW has, - for what only OLD has, and ~ for changed values. The exit code is 1 if something
    differs.

    \b
    flinkish state diff /checkpoints/1b2c3d4e5f60718293a4b5c6d7e8f901@7 /checkpoints/1b2c3d4e5f60718293a4b5c6d7e8f901@8
    flinkish state diff /savepoints/before /savepoints/after orders count
    """
    from flinkish.state import diff_savepoints

    found = [each for each in diff_savepoints(_open(old, properties), _open(new, properties), uid, name) if not each.is_same]
    for each in found:
        if as_json:
            for sign, address, before, after in each.changes():
                click.echo(_json({"uid": each.uid, "state": each.name, "sign": sign, **address, "old": before, "new": after}))
            continue
        counts = {"added": each.added, "removed": each.removed, "changed": each.changed, "same": each.same}
        click.echo(f"{each.uid}, {each.name}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")
        if each.old_type != each.new_type and each.old_type and each.new_type:
            click.echo(f"  declared as {each.new_type}, before as {each.old_type}")
        shown = 0
        for sign, address, before, after in each.changes(rows):
            values = [_values(side) for side in (before, after) if side is not None]
            click.echo(f"  {sign} {', '.join(map(_shown, address.values()))}" + (f": {' -> '.join(values)}" if values else ""))
            shown += 1
        more = each.added + each.removed + each.changed - shown
        if more:
            click.echo(f"  ... {more:,} more; --rows shows more, --json all.")
    if not found and not as_json:
        click.echo("Nothing differs.")
    return 1 if found else 0


@_command("repair")
@click.argument("path")
@click.argument("new")
@click.option(
    "--set", "values", multiple=True, type=(str, str, str, str), metavar="UID STATE KEY VALUE", help="Set a key's value."
)
@click.option(
    "--set-entry",
    "entries",
    multiple=True,
    type=(str,) * 5,
    metavar="UID STATE KEY MAP_KEY VALUE",
    help="Set the value of an entry of a map state.",
)
@click.option("--delete-key", "keys", multiple=True, type=(str, str), metavar="UID KEY", help="Remove state and timers of a key.")
@click.option("--remove-operator", "removed", multiple=True, metavar="UID", help="Leave out an operator.")
@click.option("--rename", "renamed", multiple=True, type=(str, str), metavar="UID NEW_UID", help="Give an operator another uid.")
@click.option(
    "--max-parallelism", "groups", multiple=True, type=(str, int), metavar="UID N", help="Distribute keys to N key groups."
)
def repair(
    path: str,
    new: str,
    values: Sequence[tuple[str, str, str, str]],
    entries: Sequence[tuple[str, str, str, str, str]],
    keys: Sequence[tuple[str, str]],
    removed: Sequence[str],
    renamed: Sequence[tuple[str, str]],
    groups: Sequence[tuple[str, int]],
    properties: tuple[str, ...],
) -> None:
    """Write a changed copy of the savepoint or checkpoint PATH to the folder NEW, signed by our key.

    KEY and VALUE are written as `flinkish state show --json` prints them: VALUE is JSON, and KEY is text. A key that is not there
    is an error. All options may be repeated.

    \b
    flinkish state repair PATH NEW --set orders count 'customer 7' 12
    flinkish state repair PATH NEW --delete-key orders 'customer 7'
    flinkish state repair PATH NEW --remove-operator old --rename orders orders-2
    """
    from flinkish.state import SavepointWriter
    from flinkish.state.json_values import value_of_json

    writer = SavepointWriter.from_existing_savepoint(path, load_configuration(properties, environment=os.environ))
    reader = writer.base
    assert reader is not None
    wanted = [(uid, name, {"key": key}, value) for uid, name, key, value in values]
    wanted += [(uid, name, {"key": key, "map_key": map_key}, value) for uid, name, key, map_key, value in entries]
    for uid, name, address, text in wanted:
        table = reader.read_state(uid, name)
        _check_one(table, address, f"state {name!r} of operator {uid}")
        type_info = dict(zip(table.type_info.field_names, table.type_info.field_types, strict=True))["value"]
        writer.transform_state(uid, name, _setting(address, value_of_json(text, type_info)))
    for uid, key in keys:
        _check_key(reader, uid, key)
        writer.delete_keys(uid, _is_shown_as(key))
    for uid in removed:
        writer.remove_operator(uid)
    for uid, new_uid in renamed:
        writer.change_operator_identifier(uid, new_uid)
    for uid, number in groups:
        writer.change_max_parallelism(uid, number)
    click.echo(f"Savepoint written to {writer.write(new)}")
    click.echo("You can resume your program from this savepoint with the run command.")


def _is_shown_as(text: str) -> Callable[[Any], bool]:
    return lambda key: _shown(key) == text


def _setting(address: Mapping[str, str], value: Any) -> Callable[[Any], Any]:
    return lambda row: value if _is_at(row, address) else row["value"]


def _is_at(row: Any, address: Mapping[str, str]) -> bool:
    return all(_shown(row[column]) == text for column, text in address.items())


def _check_one(table: StateTable, address: Mapping[str, str], what: str) -> None:
    """Raise InvalidArgumentError unless there is exactly one value at an address."""
    missing = address.keys() - set(table.type_info.field_names)
    if missing:
        raise InvalidArgumentError(f"{what} has no {' and '.join(sorted(missing))}", hint="flinkish state show PATH UID STATE.")
    found = sum(_is_at(row, address) for row in table)
    shown = ", ".join(map(repr, address.values()))
    if found == 0:
        raise InvalidArgumentError(f"{what} has no value for {shown}", hint="write the key as `flinkish state show` prints it.")
    if found > 1:
        raise InvalidArgumentError(
            f"{what} has {found} values for {shown}",
            hint="use --set-entry for a map, and flinkish.state.SavepointWriter for others.",
        )


def _check_key(reader: SavepointReader, uid: str, text: str) -> None:
    """Raise InvalidArgumentError unless there is exactly one key that is shown as a text."""
    tables = (reader.read_state(uid, each.name) for each in reader.states(uid))
    keys = (key for table in tables if "key" in table.type_info.field_names for key in table.column("key"))
    found = {repr(key) for key in keys if _shown(key) == text}
    if not found:
        raise InvalidArgumentError(
            f"operator {uid} has no state and no timer for {text!r}", hint="write the key as `flinkish state show` prints it."
        )
    if len(found) > 1:
        raise InvalidArgumentError(
            f"operator {uid} has several keys that are shown as {text}: {', '.join(sorted(found))}",
            hint="use delete_keys() of flinkish.state.SavepointWriter.",
        )


def _values(side: Mapping[str, Any]) -> str:
    """Return value and time of last use as text."""
    value, *others = side.items()
    return " ".join([_shown(value[1]), *(f"({name.replace('_', ' ')} {_shown(each)})" for name, each in others)])


def _shown(value: Any) -> str:
    from flinkish.state.table import text_of

    return value if isinstance(value, str) else "" if value is None else text_of(value)


def _json(columns: Mapping[str, Any]) -> str:
    """Return columns as a JSON object; values that are no plain data are texts."""
    return f"{{{', '.join(f'{json.dumps(name)}: {_json_value(value)}' for name, value in columns.items())}}}"


def _json_value(value: Any) -> str:
    from flinkish.state.table import text_of

    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return _json(value)
    text = text_of(value)
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text)
    return text
