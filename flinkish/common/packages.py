"""Packages that only some features need: they are in extras of flinkish, such as `flinkish[jdbc]`."""

from __future__ import annotations

import importlib
from typing import Any

from flinkish.common.errors import MissingPackageError


def need(package: str, what_for: str, extra: str) -> Any:
    """Import a package of an extra; raises MissingPackageError, which says how to install it.

    >>> need("no_such_package", "JdbcSink", "jdbc")
    Traceback (most recent call last):
    flinkish.common.errors.MissingPackageError: JdbcSink needs the package no_such_package, which is not installed
    Hint: pip install 'flinkish[jdbc]'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(
            f"{what_for} needs the package {package}, which is not installed", hint=f"pip install 'flinkish[{extra}]'"
        ) from error
