"""Properties of Kafka clients: translates Java's names, which Flink programs use, to those of librdkafka.

A property is passed on, translated or refused by name; none is silently ignored. Secret values never appear in messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flinkish.common.arguments import check, text_of
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
    "ssl.keymanager.algorithm": "leave it out",
    "ssl.protocol": _TLS,
    "ssl.provider": "leave it out",
    "ssl.secure.random.implementation": "leave it out",
    "ssl.trustmanager.algorithm": "leave it out",
    "ssl.truststore.password": _PEM,
    "transaction.two.phase.commit.enable": "rows are staged in the checkpoint instead; leave it out",
    "transactional.id": "use set_transactional_id_prefix()",
}

_LOGIN = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")


def checked(key: Any, value: Any) -> dict[str, str]:
    """Return the arguments of set_property() as text; raises InvalidArgumentError if they cannot be a property."""
    text_of("the name of a property", key)
    if not isinstance(value, str | int | float):
        raise InvalidArgumentError(f"the value of the property {key!r} must be text; got a {type(value).__name__}")
    return {key: str(value).lower() if isinstance(value, bool) else str(value)}


def servers(bootstrap_servers: Any) -> str:
    """Return the argument of set_bootstrap_servers(); raises InvalidArgumentError if it is not text."""
    return text_of("set_bootstrap_servers()", bootstrap_servers, hint="'host:9092', several as 'a:9092,b:9092'.")


def need_brokers(who: str, properties: Mapping[str, str]) -> None:
    """Raise InvalidProgramError if properties name no brokers."""
    check(bool(properties.get("bootstrap.servers")), f"{who} needs brokers", hint="call set_bootstrap_servers('host:9092').")


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties for messages: secrets are hidden."""
    return {key: "******" if _SECRET.search(key) else value for key, value in properties.items()}


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
