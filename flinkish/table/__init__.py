"""Of pyflink.table only DataTypes: what formats of files take for the types of their columns. There is no Table API."""

from flinkish.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]
