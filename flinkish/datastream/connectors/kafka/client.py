"""Access to confluent-kafka, which is loaded when a client is made: its errors become ours, and Java's properties become its own.

A property is passed on, translated or refused by name; none is silently ignored. Secret values never appear in messages.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.errors import ConfigurationError, FlinkishError
from flinkish.common.requirements import need
from flinkish.program.refused_records import REFUSED_HINT

if TYPE_CHECKING:
    import confluent_kafka

log = logging.getLogger("flinkish.kafka.client")

#: A partition: its topic and its number.
Partition = tuple[str, int]

#: Codes of librdkafka for conditions that pass by themselves, such as a broker that restarts.
_PASSING: Final = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_DESTROY_BROKER",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_WAIT_COORD",
        "_PARTIAL",
        "_NODE_UPDATE",
        "_UNKNOWN_BROKER",
        # No leader is known.
        "_NOENT",
        "BROKER_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_COORDINATOR",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_LEADER_EPOCH",
    }
)
_REFUSED_ACCESS: Final = frozenset(
    {
        "_AUTHENTICATION",
        "_SSL",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    }
)
#: INVALID_RECORD: without a key, for a compacted topic; INVALID_TIMESTAMP: too far from the brokers' time.
_REFUSED_MESSAGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"})
_GONE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
_HINTS: Final = (
    (_REFUSED_ACCESS, "check security.protocol, sasl.* and ssl.* of the client, and what the broker allows this user."),
    (_GONE, "was the topic deleted, or is its name misspelt? A job does not create topics."),
    (_REFUSED_MESSAGE, REFUSED_HINT),
    (_PASSING | {"_MSG_TIMED_OUT"}, "is bootstrap.servers right, and are the brokers running and reached from this machine?"),
)


class _Log:
    """Takes the log lines of librdkafka, which otherwise go to stderr: several each second while no broker answers.

    Whatever matters in them is also reported as an error, except for properties without an effect.
    """

    _UNUSED: Final = re.compile(r"property (\S+) is a (producer|consumer) property and will be ignored")

    def __init__(self) -> None:
        #: Properties that librdkafka accepts without an effect, as they are for another kind of client.
        self.unused: list[str] = []

    def log(self, level: int, *arguments: Any) -> None:
        log.debug(*arguments)
        self.unused += [f"{match[1]} (of a {match[2]})" for match in map(self._UNUSED.search, map(str, arguments)) if match]


def library() -> Any:
    """Return the module confluent_kafka; raises MissingPackageError if it is not installed."""
    kafka = need("confluent_kafka", "the Kafka connector", "kafka")
    need("confluent_kafka.admin", "the Kafka connector", "kafka")
    return kafka


def is_passing(error: confluent_kafka.KafkaError) -> bool:
    """Return whether an error is temporary, so that the caller can continue."""
    return error.name() in _PASSING or (error.retriable() and error.name() not in _GONE)


def is_gone(error: confluent_kafka.KafkaError) -> bool:
    """Return whether an error says that a topic or partition does not exist; a broker that has just started says so, too."""
    return error.name() in _GONE


def text_of(error: confluent_kafka.KafkaError) -> str:
    return f"{error.str()} ({error.name()})"


def is_refusal(error: confluent_kafka.KafkaError) -> bool:
    """Return whether an error says that brokers, or the client, do not take a message, however often it is sent."""
    return error.name() in _REFUSED_MESSAGE


def described(kind: type[FlinkishError], what: str, error: Any) -> FlinkishError:
    """Return an error of type `kind` for one of librdkafka: a KafkaError, or an exception that contains one."""
    inner = error.args[0] if isinstance(error, BaseException) else error
    hint = next((hint for names, hint in _HINTS if inner.name() in names), None)
    return kind(f"{what}: {text_of(inner)}", hint=hint)


def make(kind: str, configuration: Mapping[str, Any], who: str, logger: _Log | None = None) -> Any:
    """Make a Consumer, Producer or AdminClient; raises ConfigurationError for a property that librdkafka refuses."""
    kafka = library()
    try:
        return getattr(kafka.admin if kind == "AdminClient" else kafka, kind)(dict(configuration), logger=logger or _Log())
    except (kafka.KafkaException, ValueError, TypeError) as error:
        inner = error.args[0] if error.args else error
        text = inner.str() if hasattr(inner, "str") else str(inner)
        raise ConfigurationError(
            f"{who}: librdkafka does not accept the given properties: {text}",
            hint="names and values are those of librdkafka; most of Java's are the same. Leave out those that only "
            "Java's clients have.",
        ) from None


def check(kind: str, configuration: Mapping[str, Any], who: str) -> None:
    """Raise ConfigurationError for a property that librdkafka refuses; log those that have no effect on this kind of client."""
    lines = _Log()
    make(kind, configuration, who, lines).poll(0)  # log lines are events
    if lines.unused:
        log.warning("%s: these properties have no effect on it: %s.", who, ", ".join(lines.unused))


class Watched:
    """A client that is told why the brokers refuse it: its requests only time out, and the reason comes as an event.

    It ends with its last reference, and so do its open requests.
    """

    def __init__(self, kind: str, configuration: Mapping[str, Any], who: str) -> None:
        self._refusal: Any = None
        self.client = make(kind, {**configuration, "error_cb": self._complain}, who)

    def _complain(self, error: confluent_kafka.KafkaError) -> None:
        if error.name() in _REFUSED_ACCESS:
            self._refusal = error

    def refusal(self) -> Any:
        """Return the error with which the brokers refuse the client; None = they have not refused it so far."""
        self.client.poll(0)
        return self._refusal


class GroupReader(Watched):
    """Reads the offsets that a group has committed for the first partitions of topics. Close its client.

    It is a consumer, because librdkafka 2.16 ends the process if an administration client asks a broker that has just ceased to
    be the group's coordinator, or is not yet (librdkafka issue 5040).
    """

    def __init__(self, configuration: Mapping[str, Any], group: str, who: str, *, waits: bool = True) -> None:
        """`waits`: whether it waits for an open transaction that commits offsets of the group; it never sees those offsets."""
        isolation = "read_committed" if waits else "read_uncommitted"
        own = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
        super().__init__("Consumer", {**configuration, **own}, who)

    def committed(self, timeout: float, topics: Iterable[str] | None = None) -> list[confluent_kafka.TopicPartition]:
        """Return the committed offsets with their metadata, for the given topics or for all that the brokers list.

        `timeout` is in seconds. Raises KafkaException.
        """
        kafka = library()
        if topics is None:
            topics = self.client.list_topics(timeout=timeout).topics
        asked = [kafka.TopicPartition(topic, 0) for topic in topics]
        found: list[confluent_kafka.TopicPartition] = self.client.committed(asked, timeout=timeout) if asked else []
        for each in found:
            if each.error is not None:
                raise kafka.KafkaException(each.error)
        return [each for each in found if each.offset >= 0]


#: Java's names for properties that have another name, and the same unit, in librdkafka.
_RENAMED: Final[Mapping[str, str]] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

_PEM = "librdkafka reads PEM files: keytool -exportcert -rfc -keystore FILE -alias ALIAS > ca.pem, then ssl.ca.location=ca.pem"
_CHECKPOINTS = "offsets are committed with checkpoints: set execution.checkpointing.interval"
_NO_CLASSES = "Java classes cannot be loaded; "
_NO_GROUP = "leave it out: the source assigns partitions itself, and takes part in no group rebalance"
_SASL_CLASS = _NO_CLASSES + "use the sasl.* properties of librdkafka"
_TLS = "librdkafka uses TLS 1.2 and later; leave it out"
#: Properties that only Java's clients have, and what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "topics are not created by reading; leave it out, or create them beforehand",
    "auto.commit.interval.ms": _CHECKPOINTS,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "interceptor.classes": _NO_CLASSES + "map() the stream instead",
    "max.block.ms": "set message.timeout.ms",
    "max.poll.interval.ms": _NO_GROUP,
    "max.poll.records": "how much an epoch reads follows from its cost; set execution.epoch.max-bytes for a bound",
    "metric.reporters": "metrics are those of flinkish; leave it out",
    "partition.assignment.strategy": _NO_GROUP,
    "partitioner.class": _NO_CLASSES + "use set_partitioner() of the record serializer",
    "sasl.client.callback.handler.class": _SASL_CLASS,
    "sasl.login.callback.handler.class": _NO_CLASSES + "use the sasl.oauthbearer.* properties of librdkafka",
    "sasl.login.class": _SASL_CLASS,
    "session.timeout.ms": _NO_GROUP,
    "ssl.enabled.protocols": _TLS,
    "ssl.engine.factory.class": _NO_CLASSES + "use the ssl.* properties of librdkafka",
    "ssl.protocol": _TLS,
    "ssl.truststore.password": _PEM,
    "transaction.two.phase.commit.enable": "rows are staged in the checkpoint instead; leave it out",
    "transactional.id": "use set_transactional_id_prefix()",
}

_LOGIN = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")


def client_configuration(properties: Mapping[str, str], who: str) -> dict[str, str]:
    """Return the configuration of a librdkafka client; `who` names the connector in messages.

    Raises ConfigurationError for a property that only Java's clients know.
    """
    result: dict[str, str] = {}
    for key, value in properties.items():
        result |= _translated(key, value, properties, who)
    return result


def _refused(who: str, key: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{who}: the property {key!r} is not one of librdkafka, which flinkish uses", hint=f"{what}.")


def _translated(key: str, value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    match key:
        case "buffer.memory":
            if not value.isdigit():
                raise ConfigurationError(f"{who}: {key} = {value!r}: expected a number of bytes")
            return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}
        case "enable.auto.commit":
            if value.lower() == "true":
                raise _refused(who, key, _CHECKPOINTS)
            return {}
        case "key.deserializer" | "value.deserializer" | "key.serializer" | "value.serializer":
            # Java's classes that pass bytes on unchanged; Flink's connector always uses them.
            if value.rpartition(".")[2] not in ("ByteArraySerializer", "ByteArrayDeserializer"):
                raise _refused(who, key, "set a schema with the builder; leave this property out")
            return {}
        case "sasl.jaas.config":
            return _login(value, who)
        case "ssl.endpoint.identification.algorithm":
            return {key: value or "none"}
        case "ssl.keystore.location":
            kind = properties.get("ssl.keystore.type", "PKCS12" if value.endswith((".p12", ".pfx")) else "JKS").upper()
            if kind == "PEM":
                return {"ssl.certificate.location": value, "ssl.key.location": value}
            if kind != "PKCS12":
                instead = "keytool -importkeystore -srckeystore FILE -destkeystore client.p12 -deststoretype PKCS12"
                raise _refused(who, key, f"a store of type {kind} cannot be read; {instead}, then name client.p12")
            return {key: value}
        case "ssl.keystore.type" | "ssl.truststore.type":
            return {}  # checked with the location; PEM text has a property of its own
        case "ssl.truststore.location":
            if properties.get("ssl.truststore.type", "JKS").upper() != "PEM":
                raise _refused(who, key, _PEM)
            return {"ssl.ca.location": value}
        case _ if key in _REFUSED:
            raise _refused(who, key, _REFUSED[key])
        case _:
            return {_RENAMED.get(key, key): value}


def _login(jaas: str, who: str) -> dict[str, str]:
    if "PlainLoginModule" not in jaas and "ScramLoginModule" not in jaas:
        module = re.search(r"\w+LoginModule", jaas)
        instead = {
            "Krb5LoginModule": "set sasl.kerberos.principal and sasl.kerberos.keytab",
            "OAuthBearerLoginModule": "set sasl.oauthbearer.method=oidc and the other sasl.oauthbearer.* properties",
        }.get(module[0] if module else "", "set sasl.username and sasl.password")
        raise _refused(who, "sasl.jaas.config", f"only PlainLoginModule and ScramLoginModule are translated; {instead}")
    found = {name: re.sub(r"\\(.)", r"\1", double or single) or plain for name, double, single, plain in _LOGIN.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise _refused(who, "sasl.jaas.config", "it has no username and password; set sasl.username and sasl.password")
    return {"sasl.username": found["username"], "sasl.password": found["password"]}
