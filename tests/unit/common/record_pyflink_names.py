"""Writes pyflink_names.json: `python record_pyflink_names.py <site-packages of PyFlink 2.3> <site-packages of PyFlink 1.20>`.

Reads the sources without importing them. Kept are public names by module, and of classes the public members; of 1.20 those that
2.3 does not have any more. Left out are the workers' side (fn_execution), examples, tests, and type variables.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

_LEFT_OUT = {"fn_execution", "examples", "tests"}
#: Members of classes by name; None for what is no class.
Names = dict[str, list[str] | None]


def main(new: Path, old: Path) -> None:
    present, former = _modules(new), _modules(old)
    recorded = {"2.3": present, "1.20": {module: gone for module in former if (gone := _gone(module, former, present))}}
    Path(__file__).with_name("pyflink_names.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


def _modules(site_packages: Path) -> dict[str, Names]:
    root = site_packages / "pyflink"
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if not _LEFT_OUT.intersection(parts):
            is_package = parts[-1] == "__init__"
            module = ".".join(("pyflink", *(parts[:-1] if is_package else parts)))
            found[module] = _names(ast.parse(path.read_text()).body, is_package=is_package)
    return found


def _names(body: list[ast.stmt], *, is_package: bool) -> Names:
    names: Names = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = _members(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not (is_package and node.name.startswith("_")):
            names[node.name] = None
        elif isinstance(node, ast.Assign):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if targets == ["__all__"]:
                names |= dict.fromkeys(set(ast.literal_eval(node.value)) - set(names))
            elif not ast.unparse(node.value).startswith("TypeVar("):
                names |= dict.fromkeys(targets)
        elif is_package and isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyflink"):
            names |= dict.fromkeys(alias.asname or alias.name for alias in node.names)
        elif is_package:
            # Names that packages are given when they are imported, such as connectors that are in modules of their own.
            names |= dict.fromkeys(
                call.args[1].value
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "setattr" and isinstance(call.args[1], ast.Constant)
            )
    return {name: members for name, members in names.items() if not name.startswith("_")}


def _members(node: ast.ClassDef) -> list[str]:
    members = []
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            members.append(item.name)
        elif isinstance(item, ast.Assign):
            members += [target.id for target in item.targets if isinstance(target, ast.Name)]
    return sorted({member for member in members if not member.startswith("_")})


def _gone(module: str, former: dict[str, Names], present: dict[str, Names]) -> Names:
    now = present.get(module, {})
    gone: Names = {}
    for name, members in former[module].items():
        if name not in now:
            gone[name] = members
        elif lost := sorted(set(members or ()) - set(now[name] or ())):
            gone[name] = lost
    return gone


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
