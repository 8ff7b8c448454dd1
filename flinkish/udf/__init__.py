"""User-defined functions: their interfaces and the objects passed to them. Programs import the names from flinkish.datastream."""
