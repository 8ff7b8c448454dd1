"""JdbcSink and JdbcSource."""
