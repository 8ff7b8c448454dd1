"""Packages that only parts of the test kit need: the extra `testing` of flinkish installs them."""

from __future__ import annotations

import importlib
from typing import Any

from flinkish.common.errors import MissingPackageError


def need(package: str, what_for: str) -> Any:
    """Import a package; raises MissingPackageError, which says how to install it.

    >>> need("no_such_package", "comparing tables")
    Traceback (most recent call last):
    flinkish.common.errors.MissingPackageError: comparing tables needs the package no_such_package, which is not installed
    Hint: pip install 'flinkish[testing]'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(
            f"{what_for} needs the package {package}, which is not installed", hint="pip install 'flinkish[testing]'"
        ) from error
