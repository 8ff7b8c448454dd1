"""JdbcSink and its options, with PyFlink's names, and JdbcSource: databases, through SQLAlchemy and a Python driver.

`pip install 'flinkish[jdbc]'` installs SQLAlchemy; the driver is the user's choice: psycopg for PostgreSQL, pymysql for MySQL and
MariaDB; SQLite needs none. Other databases that SQLAlchemy has a driver for can work; tested are SQLite and PostgreSQL.
"""

from __future__ import annotations

from flinkish.datastream.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkish.datastream.connectors.jdbc.sink import JdbcSink
from flinkish.datastream.connectors.jdbc.source import JdbcSource

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink", "JdbcSource"]
