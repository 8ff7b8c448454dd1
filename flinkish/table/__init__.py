"""Of pyflink.table only DataTypes: what formats of files take for the types of their columns. There is no Table API."""

from typing import TYPE_CHECKING

from flinkish.common.absent import names_of
from flinkish.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]

if not TYPE_CHECKING:
    # PyFlink's names that are not here; type checkers shall not take any name for one.
    __getattr__ = names_of(__name__)
