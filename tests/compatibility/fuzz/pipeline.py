"""A generated program: plain data that prints as Python, and runs by running what it prints. Goes for PyFlink, too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from tests.compatibility.fuzz import vocabulary
from tests.compatibility.kit import BATCH, STEP

#: When watermarks come: with the end of input, after each record; or there are none, in batch mode.
MODES = {"end": {}, "stepped": STEP, "batch": BATCH}


@dataclass(frozen=True)
class Input:
    """One collection. All fields are texts of Python."""

    #: plain, timed or stepped.
    make: str
    records: list[str]
    type_info: str = "None"
    #: For stepped: milliseconds.
    disorder: int = 0


@dataclass(frozen=True)
class Pipeline:
    """One program; `stream` is the first input and `other` the second one, if there is one."""

    family: str
    mode: str
    inputs: list[Input]
    #: Expressions; each gives what `stream` is for the next one.
    steps: list[str]
    #: Whether the order of results counts.
    ordered: bool = True
    #: Results are what print() writes.
    printed: bool = False
    parallelism: int = 1
    settings: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return plain data, without the defaults."""
        return {name: value for name, value in asdict(self).items() if value or name in ("steps", "ordered")}

    @staticmethod
    def of(found: dict[str, object]) -> Pipeline:
        """Return what `to_json` was made from."""
        return replace(Pipeline(**found), inputs=[Input(**one) for one in found["inputs"]])

    @property
    def text(self) -> str:
        """Return the program."""
        lines = ["def program(env):"]
        for name, one in zip(("stream", "other"), self.inputs, strict=False):
            lines += [f"    {name} = {one.make}(", "        env,", "        ["]
            lines += [f"            {record}," for record in one.records]
            lines += ["        ],", f"        {one.type_info},"]
            lines += [f"        disorder={one.disorder},"] if one.disorder else []
            lines += ["    )"]
        return "\n".join([*lines, *(f"    stream = {step}" for step in self.steps), "    return stream", ""])

    def __str__(self) -> str:
        sort = "" if self.ordered else ", in any order"
        notes = f"# {self.mode}{sort}, {'printed' if self.printed else 'collected'}, parallelism {self.parallelism}"
        return f"{notes}{f', {json.dumps(self.settings)}' if self.settings else ''}\n{self.text}"

    def build(self, env):
        """Return its stream."""
        names = {**vars(vocabulary), "__name__": "generated"}
        exec(self.text, names)
        return names["program"](env)

    def settle(self, configuration):
        """Put its settings into a configuration."""
        for key, value in {**MODES[self.mode], **self.settings}.items():
            configuration.set_string(key, value)
        return configuration

    def arranged(self, results: list[str]) -> list[str]:
        """Return results as they are compared."""
        return results if self.ordered else sorted(results)
