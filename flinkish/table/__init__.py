"""Only DataTypes of pyflink.table, by which file formats get the types of their columns. There is no Table API."""

from flinkish.common.absent import add_getattr
from flinkish.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]

add_getattr(__name__)
