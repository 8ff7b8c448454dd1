"""Makes programs from seeds: a grammar with one function for each family of programs.

Programs of several keys, of several inputs or in several tasks are made such that their results do not depend on an order
that Flink leaves open; only those of one key have an order that counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.compatibility.fuzz.pipeline import Input, Pipeline

#: To be raised with each change of what a seed gives.
VERSION = 5


class Draw(random.Random):
    """Random choices."""

    def maybe(self, chance: float) -> bool:
        return self.random() < chance

    def several(self, most: int, make: Callable[[], str], least: int = 0) -> list[str]:
        return [make() for _ in range(self.randint(least, most))]


# -- types and their values ------------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "äé€", "x y", "it's", "A,B", "null", "0"]
#: Texts of values, by the names of their types.
SCALARS: dict[str, list[str]] = {
    "STRING": [repr(text) for text in TEXTS],
    **{
        name: values.split("; ")
        for name, values in {
            "BOOLEAN": "True; False",
            "BYTE": "0; 1; -128; 127",
            "SHORT": "0; -1; -32768; 32767",
            "INT": "0; 7; -2147483648; 2147483647",
            "LONG": "0; -3; -9223372036854775808; 9223372036854775807",
            "FLOAT": "0.0; -0.0; 1.5; 1.1; 100000.0; 3.4028234663852886e+38; 1e-05; 1e10; 16777216.0; nan; inf; -inf",
            "DOUBLE": "0.0; -0.0; 1.5; 1.1; 1e7; 1e-05; 123456789.125; 1.7976931348623157e+308; nan; inf; -inf",
            "BIG_DEC": "Decimal('1.50'); Decimal('1E+3'); Decimal('-0.001'); Decimal('123456789012345678901234567890.5')",
            "BIG_INT": "0; -1; 123456789012345678901234567890",
            "SQL_DATE": "datetime.date(1970, 1, 1); datetime.date(1582, 10, 15); datetime.date(2024, 2, 29); "
            "datetime.date(9999, 12, 31)",
            "SQL_TIME": "datetime.time(0, 0); datetime.time(12, 0, 1); datetime.time(23, 59, 59, 999000)",
            "SQL_TIMESTAMP": "datetime.datetime(1970, 1, 1); datetime.datetime(2021, 1, 9, 12, 0, 0, 11000); "
            "datetime.datetime(1969, 12, 31, 23, 59, 59)",
            "PICKLED_BYTE_ARRAY": "(1, 'a'); {'k': [1, None]}; 'text'; 7; [1.5, True]; Row(1, 'a'); Row(x=1); Decimal('1.0')",
        }.items()
    },
}
KEYS_OF_MAPS = ["STRING", "INT", "LONG", "BOOLEAN"]
ELEMENTS_OF_ARRAYS = ["BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE"]


def typed(draw: Draw, depth: int, whole: bool = False) -> tuple[str, Callable[[], str]]:
    """Return the text of a type, and a function that draws values of it."""
    kind = draw.choice(
        ["scalar"] * 3 + (["list", "map", "row", "named", "tuple", "primitives", "bytes", "basic", "objects"] if depth else [])
    )
    if kind == "scalar":
        # Within other types PyFlink shows what is pickled as bytes.
        name = draw.choice(sorted(SCALARS if whole else SCALARS.keys() - {"PICKLED_BYTE_ARRAY"}))
        return f"Types.{name}()", lambda: draw.choice(SCALARS[name])
    if kind == "primitives":
        name = draw.choice(ELEMENTS_OF_ARRAYS)
        return (
            f"Types.PRIMITIVE_ARRAY(Types.{name}())",
            lambda: f"[{', '.join(draw.several(3, lambda: draw.choice(SCALARS[name])))}]",
        )
    if kind == "bytes":
        return "Types.PRIMITIVE_ARRAY(Types.BYTE())", lambda: draw.choice(["b''", "b'abc'", "b'\\x00\\xff'"])
    if kind == "basic":
        name = draw.choice(["STRING", "INT", "DOUBLE"])
        return f"Types.BASIC_ARRAY(Types.{name}())", lambda: f"[{', '.join(draw.several(3, lambda: draw.choice(SCALARS[name])))}]"
    if kind == "map":
        key = draw.choice(KEYS_OF_MAPS)
        inner, value = typed(draw, depth - 1)

        # Most have one entry: several have no order in Java.
        def entry() -> str:
            keys = draw.sample(SCALARS[key], draw.choice([0, 1, 1, 1, 1, 2]))
            return f"{{{', '.join(f'{one}: {value()}' for one in keys)}}}"

        return f"Types.MAP(Types.{key}(), {inner})", entry
    if kind in ("list", "objects"):
        inner, value = typed(draw, depth - 1)
        name = "LIST" if kind == "list" else "OBJECT_ARRAY"
        return f"Types.{name}({inner})", lambda: f"[{', '.join(draw.several(3, value))}]"
    fields = [typed(draw, depth - 1) for _ in range(draw.randint(1, 3))]
    inner = ", ".join(text for text, _ in fields)

    def values() -> str:
        return ", ".join("None" if kind != "tuple" and draw.maybe(0.1) else value() for _, value in fields)

    if kind == "tuple":
        return f"Types.TUPLE([{inner}])", lambda: f"({values()},)"
    if kind == "row":
        return f"Types.ROW([{inner}])", lambda: f"Row({values()})"
    names = ["x", "y", "z"][: len(fields)]
    return f"Types.ROW_NAMED({names}, [{inner}])", lambda: f"Row({values()})"


def values(draw: Draw) -> Pipeline:
    """Values of all types, through simple operators, printed or collected."""
    type_info, value = typed(draw, 2, whole=True)
    if draw.maybe(0.1):
        type_info = "None"
    records = draw.several(5, value, 2)
    printed = draw.maybe(0.5)
    # PyFlink cannot make collections of all types.
    steps, given = [], type_info
    if draw.maybe(0.85 if any(name in type_info for name in ("LIST", "MAP", "BYTE", "ROW", "OBJECT", "PICKLED")) else 0.3):
        steps, given = [f"stream.map(lambda value: value, {type_info})"], "None"
    for _ in range(draw.randint(0, 3)):
        same = draw.choice([type_info, type_info, "None"])
        step = draw.choice(["map", "process", "flat_map", "filter", "rebalance", "keyed"])
        if step == "map":
            steps.append(f"stream.map(lambda value: value, {same})")
        elif step == "process":
            steps.append(f"stream.process(Each({draw.randint(0, 2)}), {same})")
        elif step == "flat_map":
            steps.append(f"stream.flat_map(lambda value: [value] * {draw.randint(0, 2)}, {same})")
        elif step == "filter":
            # Not by what a Row without names has less.
            kept = draw.choice(["value", "repr(value).count('7') % 2 == 0"])
            steps.append(f"stream.filter(lambda value: {kept})")
        elif step == "keyed" and "key_by" not in "".join(steps):
            steps.append(f"stream.key_by(lambda value: {draw.choice(['0', 'value', 'str(value)'])})")
            if draw.maybe(0.5):
                steps.append("stream.process(Count())")
                type_info = "None"
            else:
                steps.append(f"stream.map(lambda value: value, {same})")
        elif step == "rebalance":
            steps.append(draw.choice(["stream.rebalance()", "stream.shuffle()", "stream.forward()", "stream.rescale()"]))
    if steps and "key_by" in steps[-1]:
        steps.append(f"stream.map(lambda value: value, {type_info})")
    if draw.maybe(0.2):
        steps.append("stream.map(repr)" if draw.maybe(0.5) else "stream.map(lambda value: type(value).__name__, Types.STRING())")
    return Pipeline(
        "values", draw.choice(["end", "end", "end", "batch"]), [Input("plain", records, given)], steps, printed=printed
    )


def mismatches(draw: Draw) -> Pipeline:
    """A value of one type where another one is declared: taken, converted or refused."""
    given, declared = draw.sample(sorted(SCALARS.keys() - {"PICKLED_BYTE_ARRAY"}), 2)
    value, within = draw.choice(SCALARS[given]), draw.choice(["{}", "{}", "({},)", "[{}]"])
    form = {"{}": "{}", "({},)": "Types.TUPLE([{}])", "[{}]": "Types.LIST({})"}[within]
    step = f"stream.map(lambda value: value, {form.format(f'Types.{declared}()')})"
    return Pipeline("mismatches", "end", [Input("plain", [within.format(value)])], [step])


# -- aggregations ----------------------------------------------------------------------------------------------------------------

NUMBERS = {
    "INT": lambda draw: str(draw.randint(-9, 9)),
    "LONG": lambda draw: str(draw.choice([2**40, -5, 0, 3, 8])),
    "DOUBLE": lambda draw: str(draw.choice([0.5, -1.25, 3.0, 100.0])),
    "FLOAT": lambda draw: str(draw.choice([0.5, -1.25, 3.0])),
    "SHORT": lambda draw: str(draw.randint(-9, 9)),
    "BIG_DEC": lambda draw: f"Decimal('{draw.choice(['1.5', '-2', '0.10'])}')",
}
#: Selectors and types of their keys.
KEYS = [
    ("lambda r: r[0]", "Types.STRING()"),
    ("lambda r: r[0]", ""),
    ("lambda r: r[1] % 2", "Types.INT()"),
    ("lambda r: r[1] % 3", ""),
    ("lambda r: (r[0], r[1] % 2)", ""),
    ("lambda r: (r[0], 1)", "Types.TUPLE([Types.STRING(), Types.INT()])"),
    ("lambda r: 0", ""),
    ("lambda r: Row(r[0])", "Types.ROW([Types.STRING()])"),
    ("lambda r: r[1] > 0", "Types.BOOLEAN()"),
    ("lambda r: [r[0]]", ""),
    ("lambda r: {r[0]: 1}", ""),
    ("lambda r: None", ""),
    ("lambda r: r[1] / 2", "Types.DOUBLE()"),
    ("lambda r: r[0].encode()", ""),
    ("lambda r: datetime.date(2020, 1, 1 + r[1] % 2)", "Types.SQL_DATE()"),
    ("lambda r: [r[1] % 2]", "Types.LIST(Types.LONG())"),
]


def key_by(draw: Draw, keys: list[tuple[str, str]] = KEYS) -> str:
    selector, key_type = draw.choice(keys)
    return f"stream.key_by({', '.join(part for part in (selector, key_type) if part)})"


def aggregations(draw: Draw) -> Pipeline:
    """reduce, sum, min, max, min_by, max_by of tuples, rows, lists and numbers by keys of all kinds."""
    form = draw.choice(["tuple", "row", "untyped", "list", "number"])
    mode = draw.choice(["end", "end", "batch"])
    make = "timed" if mode == "batch" and draw.maybe(0.5) else "plain"
    kinds = [draw.choice(sorted(NUMBERS)) for _ in range(2)]

    def record() -> str:
        texts = [repr(draw.choice("abc")), str(draw.randint(-5, 9)), *(NUMBERS[kind](draw) for kind in kinds)]
        return {"row": f"Row({', '.join(texts)})", "list": f"[{', '.join(texts)}]"}.get(form, f"({', '.join(texts)})")

    records = draw.several(9, record, 3)
    inner = ", ".join(f"Types.{kind}()" for kind in ["STRING", "LONG", *kinds])
    type_info = {
        "tuple": f"Types.TUPLE([{inner}])",
        "row": f"Types.ROW_NAMED(['a', 'b', 'c', 'd'], [{inner}])",
    }.get(form, "None")
    field = draw.choice([1, 1, 2, 3, *([0, -1, 4] if draw.maybe(0.2) else [])])
    name = draw.choice([str(field), repr("abcd"[field])]) if form == "row" and field in range(4) else str(field)
    steps = [key_by(draw)]
    if form == "number":
        make = "plain"
        kind = draw.choice(sorted(NUMBERS))
        records, type_info, name = [NUMBERS[kind](draw) for _ in records], draw.choice([f"Types.{kind}()", "None"]), ""
        steps = [draw.choice(["stream.key_by(lambda n: n > 0)", "stream.key_by(lambda n: 0, Types.INT())"])]
    if draw.maybe(0.3):
        combine = {
            "number": ["a + b", "b", "max(a, b)"],
            "row": ["b", "a", "Row(a[0], a[1] + b[1], b[2], b[3])"],
            "list": ["b", "a + b", "[b[0], a[1] * 3 + b[1]]"],
        }.get(form, ["b", "a", "(a[0], a[1] * 3 + b[1], b[2], a[3])"])
        steps.append(f"stream.reduce(lambda a, b: {draw.choice(combine)})")
    else:
        steps.append(f"stream.{draw.choice(['sum', 'min', 'max', 'min_by', 'max_by'])}({name})")
    if draw.maybe(0.2):
        steps.append("stream.map(repr)")
    parallelism = 2 if mode == "end" and draw.maybe(0.15) else 1
    # In batch mode keys come in the order of their bytes.
    ordered = parallelism == 1 and mode != "batch"
    printed = ordered and draw.maybe(0.3)
    return Pipeline("aggregations", mode, [Input(make, records, type_info)], steps, ordered, printed, parallelism)


def keys(draw: Draw) -> Pipeline:
    """Keys of all kinds, typed or not: which records share their state."""
    if draw.maybe(0.5):
        type_info, value = typed(draw, 1, whole=True)
    else:
        scalars = [text for name in ("STRING", "INT", "SQL_DATE", "BIG_DEC", "PICKLED_BYTE_ARRAY") for text in SCALARS[name]]
        type_info, value = "None", lambda: draw.choice([*scalars, "None", "()", "(1, None)", "b'a'", "frozenset([1])"])
    some = draw.several(3, value, 1)
    records = [draw.choice(some) for _ in range(6)]
    key_type = draw.choice([type_info, ""])
    steps = [f"stream.key_by(lambda value: value{', ' + key_type if key_type else ''})", "stream.process(Count())"]
    return Pipeline("keys", "end", [Input("plain", records, draw.choice([type_info, "None"]))], steps)


# -- state and timers ------------------------------------------------------------------------------------------------------------

STATE_TYPES = {
    "Types.LONG()": ["1", "2", "-7", "0"],
    "Types.STRING()": ["'x'", "'y'", "''"],
    "Types.DOUBLE()": ["0.5", "2.25"],
    "Types.PICKLED_BYTE_ARRAY()": ["(1, 'x')", "(2, 'y')"],
    "Types.TUPLE([Types.LONG(), Types.STRING()])": ["(1, 'x')", "(2, 'y')"],
}


def order(draw: Draw, some: list[str]) -> str:
    """Return a call of one state: a tuple of names of state and method, and arguments."""
    value, entry = draw.choice(some), draw.choice(["'p'", "'q'"])
    several = f"[{', '.join(draw.choice(some) for _ in range(draw.randint(0, 2)))}]"
    state = draw.choice(["value", "list", "map", "least", "joined"])
    calls = {
        "value": [f"'update', {value}", "'value'", "'value'", "'clear'"],
        "list": [f"'add', {value}", f"'add_all', {several}", f"'update', {several}", "'get'", "'get'", "'clear'"],
        "map": [
            *[f"'put', {entry}, {value}", f"'put_all', [({entry}, {value})]", f"'remove', {entry}", f"'contains', {entry}"],
            *[f"'get', {entry}", "'is_empty'", "'keys'", "'values'", "'items'", "'clear'"],
        ],
    }.get(state, [f"'add', {value}", "'get'", "'clear'"])
    return f"({state!r}, {draw.choice(calls)})"


def states(draw: Draw) -> Pipeline:
    """Each record tells what to do with states of all kinds."""
    type_info = draw.choice(sorted(STATE_TYPES))
    names = "abc"[: draw.randint(1, 3)]

    def record() -> str:
        return f"({draw.choice(names)!r}, [{', '.join(draw.several(5, lambda: order(draw, STATE_TYPES[type_info]), 1))}])"

    records = draw.several(6, record, 2)
    steps = [f"stream.key_by(lambda r: r[0]{draw.choice([', Types.STRING()', ''])})", f"stream.process(States({type_info}))"]
    parallelism = 2 if draw.maybe(0.15) else 1
    settings = {"python.fn-execution.bundle.size": "1", "python.state.cache-size": "1"} if draw.maybe(0.3) else {}
    return Pipeline("states", "end", [Input("plain", records)], steps, parallelism == 1, False, parallelism, settings)


def timers(draw: Draw) -> Pipeline:
    """Timers in event time: set again, deleted, in the past, set and deleted by others."""
    mode = draw.choice(["stepped", "stepped", "end"])
    single = draw.maybe(0.6)

    def orders() -> list[str]:
        return draw.several(3, lambda: f"({draw.choice(['set', 'set', 'set', 'delete'])!r}, {draw.randint(0, 25)})")

    records = [
        f"({draw.choice('a' if single else 'abc')!r}, {draw.randint(0, 20)}, [{', '.join(orders())}])"
        for _ in range(draw.randint(2, 7))
    ]
    then = {time: orders() for time in draw.sample(range(26), draw.randint(1, 3))} if draw.maybe(0.4) else {}
    # What a timer sets comes later: else it could go on for ever.
    entries = [
        f"{time}: [{', '.join(one for one in found if 'delete' in one or int(one[:-1].split()[-1]) > time)}]"
        for time, found in sorted(then.items())
    ]
    steps = [key_by(draw, KEYS[:2]), f"stream.process(Alarm({'{' + ', '.join(entries) + '}' if entries else ''}))"]
    if draw.maybe(0.2):
        steps.append("stream.process(Stamp())")
    return Pipeline("timers", mode, [source(draw, mode, records, "None")], steps, single)


def source(draw: Draw, mode: str, records: list[str], type_info: str) -> Input:
    """Return an input with event times; the second field of records is their time."""
    if mode != "stepped":
        return Input("timed", records, type_info)
    times = [int(re.search(r", (-?\d+)", record)[1]) for record in records]
    # Whether the last record's watermark comes before the one of the end is open in PyFlink: let there be none.
    more = records[:1] if times[-1] == max(times) else []
    return Input("stepped", [*records, *more], type_info, draw.choice([0, 0, 2, 5]))


# -- windows ---------------------------------------------------------------------------------------------------------------------


def disordered(draw: Draw, most: int, names: str) -> list[str]:
    """Return pairs whose numbers grow, but not always."""
    time, found = draw.randint(-3, 5), []
    for _ in range(draw.randint(2, most)):
        time += draw.choice([0, 1, 1, 2, 3, 5, 12])
        found.append(f"({draw.choice(names)!r}, {time - draw.choice([0, 0, 0, 1, 3, 7])})")
    return found


def windows(draw: Draw) -> Pipeline:
    """Windows of all kinds with all triggers, lateness, side outputs and functions."""
    # Not in batch mode: PyFlink loses results of windows there, or does not end; ../programs/batch.py has such cases.
    mode = draw.choice(["stepped", "end"])
    single, everything = draw.maybe(0.6), draw.maybe(0.15)
    records = disordered(draw, 9, "a" if single else "abc")
    type_info = draw.choice(["pairs()", "pairs()", "rows()", "None"])
    if type_info == "rows()":
        records = [f"Row{record}" for record in records]
    steps = [] if everything else [key_by(draw, KEYS[:2])]
    size, slide, offset = draw.randint(2, 12), draw.randint(1, 7), draw.choice([0, 0, 0, 1, -2])
    stride = max(slide, size // 4)
    assigner = draw.choice(["tumbling", "tumbling", "sliding", "sliding", "sessions", "sessions", "records", "global", "count"])
    texts = {
        "tumbling": f"tumbling({size}, {offset if abs(offset) < size else 0})",
        "sliding": f"sliding({size}, {stride}, {offset if abs(offset) < stride else 0})",
        "sessions": f"sessions({slide})",
        "records": f"sessions_of_records({slide})",
        "global": "GlobalWindows.create()",
    }
    if assigner == "count" and not everything:
        steps.append(f"stream.count_window({draw.choice(['2', '3', '3, 1', '2, 1', '4, 2'])})")
    else:
        assigner = "tumbling" if assigner == "count" else assigner
        steps.append(f"stream.{'window_all' if everything else 'window'}({texts[assigner]})")
    merging = assigner in ("sessions", "records")
    trigger = triggers(draw, assigner, merging)
    steps += [f"stream.trigger({trigger})"] if trigger else []
    lateness = draw.choice([0, 0, 3, 8]) if mode == "stepped" and assigner not in ("global", "count") else 0
    steps += [f"stream.allowed_lateness({lateness})"] if lateness else []
    aside = mode == "stepped" and assigner not in ("global", "count") and draw.maybe(0.4)
    tag = f"late({type_info if type_info != 'None' else 'Types.PICKLED_BYTE_ARRAY()'})"
    steps += [f"stream.side_output_late_data({tag})"] if aside else []
    steps.append(f"stream.{window_function(draw, everything, merging, type_info)}")
    split = "Split" in steps[-1]
    if split or aside:
        steps.append(f"both(stream, {'side()' if split else tag})")
    elif draw.maybe(0.15):
        steps.append("stream.process(Stamp())")
    # Windows that are due at the same time have no order.
    alike = assigner == "sliding" and trigger is not None
    ordered = (single or everything) and not aside and not split and not alike
    return Pipeline("windows", mode, [source(draw, mode, records, type_info)], steps, ordered)


def triggers(draw: Draw, assigner: str, merging: bool) -> str | None:
    """Return the text of a trigger that such windows can have."""
    counted = [f"CountTrigger.of({draw.randint(1, 3)})", f"PurgingTrigger.of(CountTrigger.of({draw.randint(1, 3)}))"]
    if assigner == "count":
        return draw.choice([None] * 4 + [*counted, "Told('FIRE', 'CONTINUE')"])
    if assigner == "global":
        return draw.choice(
            [*counted, "NeverTrigger()", f"Told('CONTINUE', timer='FIRE_AND_PURGE', after={draw.randint(0, 4)})", None]
        )
    common = [None] * 6 + [*counted, "EventTimeTrigger.create()", "PurgingTrigger.of(EventTimeTrigger.create())"]
    common += [f"Sums({draw.choice([5, 20])})", f"continuous({draw.randint(2, 5)})"]
    if merging:
        return draw.choice(common)
    results = ["'FIRE', 'CONTINUE'", "'FIRE_AND_PURGE', 'CONTINUE', 'FIRE'", "'PURGE', 'FIRE'"]
    later = f"Told('CONTINUE', timer={draw.choice(['FIRE', 'FIRE_AND_PURGE', 'PURGE'])!r}, after={draw.randint(0, 6)})"
    return draw.choice([*common, f"Told({draw.choice(results)})", later])


def window_function(draw: Draw, everything: bool, merging: bool, type_info: str) -> str:
    """Return the call that ends a window."""
    around = "AllContents()" if everything else draw.choice(["Contents()", "Apply()"])
    whole = "AllContents()" if everything else "Contents()"
    pair = "Row" if type_info == "rows()" else ""
    combine = draw.choice(["b", "a", f"{pair}(a[0], a[1] + b[1])", f"{pair}(a[0], a[1] * 100 + b[1])"])
    kept = f", output_type={type_info}" if type_info != "None" and draw.maybe(0.3) else ""
    types = ", accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]), output_type=Types.TUPLE([Types.LONG(), Types.LONG()])"
    calls = [
        *[f"process({whole})"] * 3,
        f"reduce(lambda a, b: {combine}{kept})",
        f"reduce(lambda a, b: {combine}, {around})",
        f"aggregate({draw.choice(['Digits()', 'Total()', 'Join()'])})",
        f"aggregate({draw.choice(['Digits()', 'Total()', 'Join()'])}, {around})",
        f"aggregate(Total(){types})",
        f"apply({'AllApply()' if everything else 'Apply()'})",
    ]
    if not everything:
        calls.append("process(Split())" if merging else "process(Counting())")
    return draw.choice(calls)


def cascades(draw: Draw) -> Pipeline:
    """Keyed operators one behind the other: results go on with the times of their windows, timers and records."""
    mode, single = draw.choice(["stepped", "end"]), draw.maybe(0.6)
    again = "stream.key_by(lambda r: r[0], Types.STRING())"
    simple = ["map(Sum())", "filter(Fresh())", "flat_map(AsOften())", "reduce(lambda a, b: (a[0], a[1] + b[1]))", "max_by(1)"]
    size = draw.randint(2, 6)
    first = [
        *[[f"stream.{draw.choice(simple)}"]] * 2,
        [f"stream.process(Later({draw.randint(0, 4)}))"],
        [f"stream.window(tumbling({size}))", "stream.reduce(lambda a, b: (a[0], a[1] + b[1]))"],
        [f"stream.window(sessions({size}))", "stream.reduce(lambda a, b: b)"],
        ["stream.count_window(2)", "stream.reduce(lambda a, b: (a[0], a[1] * b[1]))"],
    ]
    windowed = draw.choice([f"tumbling({size * 3})", f"sliding({size * 2}, {size})", f"sessions({size + 2})"])
    last = [
        ["stream.process(Stamp())"],
        [again, "stream.process(Later(3))"],
        [again, f"stream.{draw.choice(simple)}"],
        *[[again, f"stream.window({windowed})", draw.choice(["stream.process(Contents())", "stream.aggregate(Digits())"])]] * 3,
    ]
    steps = [again, *draw.choice(first), *draw.choice(last)]
    records = disordered(draw, 9, "a" if single else "abc")
    return Pipeline("cascades", mode, [source(draw, mode, records, "pairs()")], steps, single)


# -- two inputs ------------------------------------------------------------------------------------------------------------------


def two_inputs(draw: Draw) -> Pipeline:
    """Union, connected streams, broadcast state, side outputs."""
    mode = draw.choice(["end", "end", "stepped"])
    type_info = draw.choice(["pairs()", "None"])
    inputs = [source(draw, mode, disordered(draw, 6, "abc"), type_info) for _ in range(2)]
    keyed = "key_by(lambda r: r[0], Types.STRING())"
    kind = draw.choice(["union", "meet", "meet", "map", "flat_map", "process", "broadcast", "keyed broadcast", "side"])
    if kind == "union":
        # Sorted contents of windows that fire at the end: a window with one watermark for all is the same in any order.
        mode, inputs = "end", [Input("timed", one.records, type_info) for one in inputs]
        steps = ["stream.union(other)"]
        if draw.maybe(0.6):
            steps += [f"stream.{keyed}", f"stream.window({draw.choice(['tumbling(5)', 'sliding(6, 3)', 'sessions(4)'])})"]
            steps.append(draw.choice(["stream.reduce(lambda a, b: (a[0], a[1] + b[1]))", "stream.aggregate(Total())"]))
    elif kind == "meet":
        keys = "lambda r: r[0], lambda r: r[0]" + draw.choice(["", ", Types.STRING()"])
        steps = [f"stream.connect(other).key_by({keys})", f"stream.process(Meet({draw.choice([0, 3, 1000])}))"]
        # When a timer of the middle fires is open, as are the records of the other input that came before.
        mode, inputs = "end", [Input("timed", one.records, type_info) for one in inputs]
    elif kind in ("map", "flat_map"):
        steps = [f"stream.connect(other).{kind}({'CoMap()' if kind == 'map' else 'CoFlatMap()'})"]
    elif kind == "process":
        steps = ["stream.connect(other).process(CoProcess())"]
        if draw.maybe(0.5):
            steps = [f"stream.{keyed}.connect(other.{keyed}).process(CoProcess())"]
        steps.append("both(stream, side())")
    elif kind == "broadcast":
        inputs = [*inputs[:1], Input("plain", inputs[1].records, type_info)]
        steps = ["stream.connect(other.broadcast(rules())).process(Broadcast())"]
        # In batch mode the broadcast side comes first.
        mode = draw.choice(["end", "batch"])
        inputs = [Input("timed", inputs[0].records, type_info), inputs[1]]
    elif kind == "keyed broadcast":
        mode = "end"
        inputs = [Input("timed", one.records, type_info) for one in inputs]
        steps = [f"stream.{keyed}.connect(other.broadcast(rules())).process(KeyedBroadcast())"]
    else:
        mode, inputs = "end", [Input("timed", inputs[0].records, type_info)]
        steps = [f"stream.process(ToSide(lambda r: r[1] % {draw.randint(1, 4)} == 0))", "both(stream, side())"]
    if draw.maybe(0.2):
        steps.append("stream.process(Stamp())")
    parallelism = 2 if kind in ("map", "flat_map", "process", "union") and mode == "end" and draw.maybe(0.3) else 1
    return Pipeline("two_inputs", mode, inputs, steps, False, parallelism=parallelism)


#: How often each of them comes.
FAMILIES: dict[Callable[[Draw], Pipeline], int] = {
    values: 20,
    mismatches: 6,
    aggregations: 14,
    keys: 6,
    states: 14,
    timers: 14,
    windows: 32,
    cascades: 12,
    two_inputs: 12,
}


def generate(seed: int) -> Pipeline:
    """Return the program of a seed."""
    draw = Draw(seed)
    (family,) = draw.choices(list(FAMILIES), list(FAMILIES.values()))
    return family(draw)
