"""Formats of files and messages, with PyFlink's names: csv, json, avro, parquet, orc."""
