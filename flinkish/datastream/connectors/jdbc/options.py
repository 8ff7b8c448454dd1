"""The options of JDBC sinks and sources with PyFlink's names: the connection to the database, and the batches of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkish.common.arguments import check, int_of
from flinkish.common.builder import FieldsBuilder, SettingsBuilder
from flinkish.common.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class JdbcConnectionOptions:
    """The URL of a database, user and password; made by JdbcConnectionOptionsBuilder. The password is never printed."""

    _url: str = field(repr=False)
    _driver_name: str | None = None
    _user_name: str | None = None
    _password: str | None = field(default=None, repr=False)

    def get_db_url(self) -> str:
        """Return the URL as it was given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the class name of the JDBC driver; None if it was not set."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user name; None if it was not set."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password; None if it was not set."""
        return self._password

    class JdbcConnectionOptionsBuilder(FieldsBuilder):
        """Sets up JdbcConnectionOptions.

        >>> JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/tmp/flights.db").build()
        JdbcConnectionOptions(_driver_name=None, _user_name=None)
        """

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL: `jdbc:postgresql:`, `jdbc:mysql:`, `jdbc:mariadb:` or `jdbc:sqlite:`, or any URL of SQLAlchemy."""
            return self._with("url", url)

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the class name of the JDBC driver. It is optional, and must match the URL."""
            return self._with("driver_name", driver_name)

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user name; it replaces the one in the URL."""
            return self._with("user_name", user_name)

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password; it replaces the one in the URL."""
            return self._with("password", password)

        def build(self) -> JdbcConnectionOptions:
            """Return the options; raises InvalidProgramError without a URL."""
            hint = 'with_url("jdbc:postgresql://host/database"), for example.'
            check("_url" in self._fields, "JdbcConnectionOptions need a URL", hint=hint)
            return JdbcConnectionOptions(**self._fields)

        def _with(self, name: str, text: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            if not isinstance(text, str) or not text:
                got = "something else" if name in ("url", "password") else repr(text)
                raise InvalidArgumentError(f"with_{name} takes a text that is not empty; got {got}")
            return self._set(**{f"_{name}": text})


@dataclass(frozen=True, slots=True)
class JdbcExecutionOptions:
    """The size and interval of batches, and the number of retries; made by `builder()` or `defaults()`."""

    # Flink's defaults.
    _batch_interval_ms: int = 0
    _batch_size: int = 5000
    _max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the milliseconds after which an incomplete batch is sent; 0 = only at checkpoints and at the end."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows in a batch."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """Return the number of retries of a failed batch before the job fails."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the defaults: batches of 5000 rows, no interval, 3 retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder that starts from the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder(SettingsBuilder["JdbcExecutionOptions"]):
        """Sets up JdbcExecutionOptions."""

        def __init__(self) -> None:
            super().__init__(JdbcExecutionOptions())

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of rows in a batch, at least 1."""
            return self._set(_batch_size=int_of("with_batch_size()", size, minimum=1))

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set the milliseconds after which an incomplete batch is sent; 0 = only at checkpoints and at the end."""
            return self._set(_batch_interval_ms=int_of("with_batch_interval_ms()", interval_ms, minimum=0))

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set the number of retries of a failed batch; retry n, counted from 1, comes after a pause of n - 1 seconds."""
            return self._set(_max_retries=int_of("with_max_retries()", max_retries, minimum=0))

        def build(self) -> JdbcExecutionOptions:
            """Return the options."""
            return self._settings
