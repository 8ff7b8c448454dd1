"""Delta tables: DeltaSource and DeltaSink, which PyFlink does not have."""

from __future__ import annotations

from flinkish.datastream.connectors.delta.sink import DeltaSink, DeltaSinkBuilder
from flinkish.datastream.connectors.delta.source import DeltaSource, DeltaSourceBuilder

__all__ = ["DeltaSink", "DeltaSinkBuilder", "DeltaSource", "DeltaSourceBuilder"]
