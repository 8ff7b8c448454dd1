"""The public surface against that of PyFlink 2.3: the same classes, methods, arguments and defaults.

What is left out, or differs, is in docs/reasons.py with its reason; the table of what is supported is made of the same.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from docs.support import Status, compare_class, recorded, walk

_RECORDED = recorded()


@pytest.mark.parametrize(
    ("module", "name", "described"),
    [
        pytest.param(module, name, described, id=f"{module}.{name}")
        for module, classes in _RECORDED["modules"].items()
        for name, described in walk(classes)
    ],
)
def test_class_has_the_methods_of_pyflink_with_their_arguments_and_defaults(
    module: str, name: str, described: dict[str, Any]
) -> None:
    unexplained = [entry for entry in compare_class(module, name, described) if entry.status is Status.UNEXPLAINED]

    assert [f"{entry.qualified}: {entry.note}" for entry in unexplained] == []


@pytest.mark.parametrize("package", list(_RECORDED["exports"]))
def test_package_exports_what_pyflink_exports(package: str) -> None:
    ours = importlib.import_module(package.replace("pyflink", "flinkish", 1))
    exported = set(_RECORDED["exports"][package])
    if package == "pyflink.datastream":
        # Not in PyFlink's __all__ by oversight, but imported from there by everyone.
        exported |= {"ProcessFunction", "CoProcessFunction"}

    assert sorted(exported - set(ours.__all__)) == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    import flinkish.datastream as ours

    with pytest.raises(AttributeError, match="Nonsense"):
        ours.Nonsense  # noqa: B018
