"""Only DataTypes of pyflink.table, by which file formats get the types of their columns. There is no Table API."""

from typing import TYPE_CHECKING

from flinkish.common.absent import names_of
from flinkish.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]

if not TYPE_CHECKING:
    # Absent names of PyFlink; hidden from type checkers, which would accept any name otherwise.
    __getattr__ = names_of(__name__)
