"""Pure parts of the Spark engine."""
