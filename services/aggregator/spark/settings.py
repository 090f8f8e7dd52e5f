"""Settings for Spark's Kafka client, from those of librdkafka.

Both name most things alike. Where they do not, a setting that decides who is trusted is put into
the other's words or refused, and one that only tunes librdkafka is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stream_dp.errors import UserError

_SAME = {"client.dns.lookup", "client.id", "client.rack"}
_TRUST = ("sasl", "ssl", "security", "enable.sasl", "enable.ssl", "oauthbearer")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_ON = {"1", "true", "t"}


def kafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The same connection for the client that Spark has, which is Kafka's own.

    settings: of librdkafka. Raises UserError, which never quotes a value.
    """
    left = dict(settings)
    done = {"bootstrap.servers": left.pop("bootstrap.servers")}
    done |= {name: left.pop(name) for name in _SAME & left.keys()}
    done["security.protocol"] = left.pop("security.protocol", "plaintext").upper()
    done |= _sasl(left)
    done |= _tls(left)
    if refused := sorted(name for name in left if name.startswith(_TRUST)):
        raise UserError(
            f"run.kafka.'{name}': Spark's Kafka client has no such setting; write engine ="
            " 'processes', or connect another way"
            for name in refused
        )
    return done


def _sasl(left: dict[str, str]) -> dict[str, str]:
    mechanism = left.pop("sasl.mechanisms", left.pop("sasl.mechanism", None))
    if mechanism is None:
        return {}
    if mechanism not in _MODULES:
        raise UserError(
            f"run.kafka.'sasl.mechanism': engine = 'spark' knows {', '.join(_MODULES)}; write one"
            " of these, or engine = 'processes'"
        )
    user, password = left.pop("sasl.username", ""), left.pop("sasl.password", "")
    fields = f"username={_quoted(user)} password={_quoted(password)}"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_MODULES[mechanism]} required {fields};",
    }


def _quoted(text: str) -> str:
    """A value in a configuration of JAAS."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(left: dict[str, str]) -> dict[str, str]:
    """Certificates by their text, for a client that wants its key and its chain in one file."""
    done = dict[str, str]()
    if left.get("enable.ssl.certificate.verification", "true").lower() in _ON:
        left.pop("enable.ssl.certificate.verification", None)
    if (named := left.pop("ssl.endpoint.identification.algorithm", None)) is not None:
        done["ssl.endpoint.identification.algorithm"] = "" if named == "none" else named
    texts = {
        name: left.pop(f"ssl.{name}.pem", "") or _content(name, left)
        for name in ("ca", "certificate", "key")
    }
    if texts["ca"]:
        done |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": texts["ca"]}
    if texts["certificate"] and texts["key"]:
        done["ssl.keystore.type"] = "PEM"
        done["ssl.keystore.certificate.chain"] = texts["certificate"]
        done["ssl.keystore.key"] = texts["key"]
        if (password := left.pop("ssl.key.password", None)) is not None:
            done["ssl.key.password"] = password
    return done


def _content(name: str, left: dict[str, str]) -> str:
    """What the file of a certificate or key holds; empty without one."""
    place = left.pop(f"ssl.{name}.location", "probe")
    if place == "probe":
        return ""
    try:
        return Path(place).read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"run.kafka.'ssl.{name}.location': {place} cannot be read") from None
