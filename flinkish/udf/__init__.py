"""User-defined functions: their interfaces, and what they are called with. Programs import the names from flinkish.datastream."""
