"""Packages that only parts of the test kit need: the extra `testing` of flinkish installs them."""

from __future__ import annotations

from typing import Any

from flinkish.common import requirements


def need(package: str, what_for: str) -> Any:
    """Import a package; raises MissingPackageError, which says how to install it.

    >>> need("no_such_package", "comparing tables")
    Traceback (most recent call last):
    flinkish.common.errors.MissingPackageError: comparing tables needs the package no_such_package, which is not installed
    Hint: pip install 'flinkish[testing]'
    """
    return requirements.need(package, what_for, "testing")
