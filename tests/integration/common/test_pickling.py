"""Programs travel to other processes by value; what cannot travel is named."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.kit.child import python


def test_classes_of_the_script_are_found_again_in_the_other_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    data = tmp_path / "program"
    back = tmp_path / "back"
    script.write_text(
        textwrap.dedent(f"""
            import pathlib, subprocess, sys
            from flinkish.common import pickling

            class Point:
                def __init__(self, x): self.x = x

            pathlib.Path({str(data)!r}).write_bytes(pickling.dump_program(lambda x: Point(x)))
            receiver = '''
            import pathlib
            from flinkish.common import pickling
            make = pickling.load_program(pathlib.Path({str(data)!r}).read_bytes())
            pathlib.Path({str(back)!r}).write_bytes(pickling.dumps(make(5)))
            '''
            subprocess.run([sys.executable, "-c", "\\n".join(line.strip() for line in receiver.splitlines())], check=True)
            point = pickling.loads(pathlib.Path({str(back)!r}).read_bytes())
            assert type(point) is Point and point.x == 5
        """),
        encoding="utf-8",
    )
    python(script)


_CACHES = """
from __future__ import annotations
import dataclasses, enum, functools, pathlib, subprocess, sys, typing
import msgspec
from flinkish.common import pickling

@dataclasses.dataclass
class Point:
    x: int
    @functools.cached_property
    def double(self): return 2 * self.x
    @functools.lru_cache
    def times(self, n): return n * self.x
    @functools.singledispatchmethod
    def show(self, value): return "any"
    @show.register
    def _(self, value: int): return "int"
    def __hash__(self): return self.x

class Colour(enum.Enum):
    RED = 1

class Pair(typing.NamedTuple):
    colour: Colour
    point: Point

class Named(typing.TypedDict):
    pair: Pair

@dataclasses.dataclass
class Record:
    named: "Named"
    more: "list[Record]" = dataclasses.field(default_factory=list)

@functools.lru_cache(maxsize=5)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def use():
    point = Point(3)
    record = msgspec.json.decode(b'{"named": {"pair": [1, {"x": 3}]}, "more": [{"named": {"pair": [1, {"x": 4}]}}]}', type=Record)
    assert record.named["pair"] == Pair(Colour.RED, point)
    assert record.more[0].named["pair"].point == Point(4)
    shown = fibonacci(30), fibonacci.cache_info().maxsize, point.double, point.times(4), point.show(1), point.show("")
    assert shown == (832040, 5, 6, 12, "int", "any"), shown
    return record

use()
for make in (lambda: use, lambda: pickling.own_copy(use, "it"), lambda: pickling.copies(use, 1)[0]):
    pathlib.Path(sys.argv[1]).write_bytes(pickling.dump_program(make()))
    receive = "from flinkish.common import pickling; pickling.load_program(open('PROGRAM', 'rb').read())()"
    subprocess.run([sys.executable, "-c", receive.replace("PROGRAM", sys.argv[1])], check=True)
    make()()
assert pickling.loads(pickling.dumps_by_value(use())) == use()
assert pickling.loads(pickling.dumps((use(), lambda: 1)))[0] == use()
"""


def test_classes_and_functions_of_the_script_travel_without_the_caches_that_libraries_left_on_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_CACHES, encoding="utf-8")
    python(script, tmp_path / "program")
