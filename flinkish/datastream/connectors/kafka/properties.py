"""Properties of Kafka clients: translates Java's names, which Flink programs use, to those of librdkafka.

A property is passed on, translated or refused by name; none is silently ignored. Secret values never appear in messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from flinkish.common.errors import ConfigurationError, InvalidArgumentError

_SECRET = re.compile(r"password|secret|jaas|token|\.key$|key\.pem|credential|sasl\.oauthbearer\.config")

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
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
}

_PEM = "librdkafka reads PEM files: keytool -exportcert -rfc -keystore FILE -alias ALIAS > ca.pem, then ssl.ca.location=ca.pem"
_LEAVE_OUT = "leave it out"
#: Properties that only Java's clients have, and what to do instead.
_REFUSED: Final[Mapping[str, str]] = {
    "allow.auto.create.topics": "topics are not created by reading; leave it out, or create them beforehand",
    "auto.commit.interval.ms": "offsets are committed with checkpoints: set execution.checkpointing.interval",
    "group.instance.id": "partitions are assigned by the source itself; leave it out",
    "group.protocol": "partitions are assigned by the source itself; leave it out",
    "interceptor.classes": "Java classes cannot be loaded; map() the stream instead",
    "max.block.ms": "set message.timeout.ms",
    "max.poll.interval.ms": _LEAVE_OUT + ": the source takes part in no group rebalance",
    "max.poll.records": "how much an epoch reads follows from its cost; set execution.epoch.max-bytes for a bound",
    "metric.reporters": "metrics are those of flinkish; leave it out",
    "partition.assignment.strategy": "partitions are assigned by the source itself; leave it out",
    "partitioner.class": "Java classes cannot be loaded; use set_partitioner() of the record serializer",
    "sasl.client.callback.handler.class": "Java classes cannot be loaded; use the sasl.* properties of librdkafka",
    "sasl.login.callback.handler.class": "Java classes cannot be loaded; use the sasl.oauthbearer.* properties of librdkafka",
    "sasl.login.class": "Java classes cannot be loaded; use the sasl.* properties of librdkafka",
    "session.timeout.ms": _LEAVE_OUT + ": the source takes part in no group rebalance",
    "heartbeat.interval.ms": _LEAVE_OUT + ": the source takes part in no group rebalance",
    "ssl.enabled.protocols": "librdkafka uses TLS 1.2 and later; leave it out",
    "ssl.engine.factory.class": "Java classes cannot be loaded; use the ssl.* properties of librdkafka",
    "ssl.keymanager.algorithm": _LEAVE_OUT,
    "ssl.protocol": "librdkafka uses TLS 1.2 and later; leave it out",
    "ssl.provider": _LEAVE_OUT,
    "ssl.secure.random.implementation": _LEAVE_OUT,
    "ssl.trustmanager.algorithm": _LEAVE_OUT,
    "ssl.truststore.password": _PEM,
    "transaction.two.phase.commit.enable": "rows are staged in the checkpoint instead; leave it out",
    "transactional.id": "use set_transactional_id_prefix()",
}

#: Java's classes that pass bytes on unchanged; Flink's connector always uses them.
_BYTES_CLASSES: Final = ("ByteArraySerializer", "ByteArrayDeserializer")
_LOGIN = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")


def checked(key: Any, value: Any, method: str) -> tuple[str, str]:
    """Return the name and value of a property as text; raises InvalidArgumentError if they have other types."""
    if not isinstance(key, str) or not key:
        raise InvalidArgumentError(f"{method}: the name of a property must be text; got {key!r}")
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise InvalidArgumentError(f"{method}: the value of {key!r} must be text; got a {type(value).__name__}")
    return key, str(value)


def servers(bootstrap_servers: Any) -> str:
    """Return the argument of set_bootstrap_servers(); raises InvalidArgumentError if it is not text."""
    if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
        raise InvalidArgumentError(
            f"set_bootstrap_servers() takes text; got {bootstrap_servers!r}", hint="'host:9092', several as 'a:9092,b:9092'."
        )
    return bootstrap_servers


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties for messages: secrets are hidden."""
    return {key: "******" if _SECRET.search(key) else value for key, value in properties.items()}


def client_configuration(properties: Mapping[str, str], who: str) -> dict[str, str]:
    """Return the configuration of a librdkafka client; `who` names the connector in messages.

    Raises ConfigurationError for a property that only Java's clients know.
    """
    result: dict[str, str] = {}
    for key, value in properties.items():
        translate = _TRANSLATED.get(key)
        if translate is not None:
            result.update(translate(value, properties, who))
        elif key in _REFUSED:
            raise _refused(who, key, _REFUSED[key])
        elif key in ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"):
            if value.rpartition(".")[2] not in _BYTES_CLASSES:
                raise _refused(who, key, "set a schema with the builder; leave this property out")
        else:
            result[_RENAMED.get(key, key)] = value
    return result


def _refused(who: str, key: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{who}: the property {key!r} is not one of librdkafka, which flinkish uses", hint=f"{what}.")


def _jaas(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    if "PlainLoginModule" not in value and "ScramLoginModule" not in value:
        module = re.search(r"\w+LoginModule", value)
        instead = {
            "Krb5LoginModule": "set sasl.kerberos.principal and sasl.kerberos.keytab",
            "OAuthBearerLoginModule": "set sasl.oauthbearer.method=oidc and the other sasl.oauthbearer.* properties",
        }.get(module[0] if module else "", "set sasl.username and sasl.password")
        raise _refused(who, "sasl.jaas.config", f"only PlainLoginModule and ScramLoginModule are translated; {instead}")
    found = {name: re.sub(r"\\(.)", r"\1", double or single) or plain for name, double, single, plain in _LOGIN.findall(value)}
    if found.keys() != {"username", "password"}:
        raise _refused(who, "sasl.jaas.config", "it has no username and password; set sasl.username and sasl.password")
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _truststore(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    if properties.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise _refused(who, "ssl.truststore.location", _PEM)
    return {"ssl.ca.location": value}


def _keystore(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    kind = properties.get("ssl.keystore.type", "PKCS12" if value.endswith((".p12", ".pfx")) else "JKS").upper()
    match kind:
        case "PKCS12":
            return {"ssl.keystore.location": value}
        case "PEM":
            return {"ssl.certificate.location": value, "ssl.key.location": value}
    instead = "keytool -importkeystore -srckeystore FILE -destkeystore client.p12 -deststoretype PKCS12"
    raise _refused(who, "ssl.keystore.location", f"a store of type {kind} cannot be read; {instead}, then name client.p12")


def _store_type(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    return {}  # checked with the location; PEM text has a property of its own


def _host_check(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": value or "none"}


def _buffer_memory(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    if not value.isdigit():
        raise ConfigurationError(f"{who}: buffer.memory = {value!r}: expected a number of bytes")
    return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}


def _auto_commit(value: str, properties: Mapping[str, str], who: str) -> dict[str, str]:
    if value.lower() == "true":
        raise _refused(who, "enable.auto.commit", "offsets are committed with checkpoints: set execution.checkpointing.interval")
    return {}


_TRANSLATED: Final[Mapping[str, Callable[[str, Mapping[str, str], str], dict[str, str]]]] = {
    "buffer.memory": _buffer_memory,
    "enable.auto.commit": _auto_commit,
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _host_check,
    "ssl.keystore.location": _keystore,
    "ssl.keystore.type": _store_type,
    "ssl.truststore.location": _truststore,
    "ssl.truststore.type": _store_type,
}
