"""Clients of a Kafka cluster and of its administrators; librdkafka's errors as a log's errors.

An administrator's request waits for the broker that is to answer it, the controller or the leader
of a partition, also while that broker is dead. So requests are short, and both are looked up anew
before a request is repeated.

The protocol of a port is detected for the error of a client without a connection. To a client, a
broker that is down and a broker that expects another protocol look alike: both close
the connection. Kafka's first request, sent with and without TLS, tells the two apart.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import struct
import time as clock_module
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_dp.errors import UserError

from .log import Forbidden, LogError, Unavailable, Untrusted

TIMEOUT = 30.0  # seconds that a cluster may take to answer
# Failures that may pass by themselves: a broker that restarts, a leader that moves.
TRANSIENT_ERRORS = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._NOENT,  # of the leaders of partitions
}
_LEADERLESS = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError._NOENT,
}
DENIED_TOPIC = KafkaError.TOPIC_AUTHORIZATION_FAILED
_DENIED = {
    DENIED_TOPIC,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
# Errors reach the caller through results; librdkafka's log may quote settings.
_QUIET = logging.getLogger("stream_dp.quiet")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
_Client = TypeVar("_Client")


def new_client(
    kind: Callable[[dict[str, object]], _Client], settings: Mapping[str, object]
) -> _Client:
    """Makes a client of this kind. Raises UserError, which never quotes a setting's value."""
    try:
        return kind({**settings, "logger": _QUIET})
    except (KafkaException, TypeError, ValueError) as error:
        named = re.search(r'property:? "?([a-z][a-z0-9._]*)', str(error))
        setting = f"'{named[1]}'" if named else "security.protocol, sasl.* or ssl.*"
        raise UserError(f"kafka: the client refuses the setting {setting}") from None


def error_text(error: KafkaException) -> str:
    """Returns librdkafka's text of an error."""
    return str(error.args[0].str())


def is_transient(error: KafkaException | TimeoutError) -> bool:
    """Tells whether a failure may pass by itself."""
    return isinstance(error, TimeoutError) or error.args[0].code() in TRANSIENT_ERRORS


def forbidden(deed: str, resource: str, right: str) -> Forbidden:
    """Makes the error to raise without a right. resource: like "topic 'x.journal'"."""
    return Forbidden(f"kafka: no right to {deed} {resource}; grant {right} on it")


def unseen(name: str) -> Forbidden:
    """Makes the error to raise without the right to see a topic. name: its full name."""
    return forbidden("see", f"topic '{name}'", "Describe")


def log_error(
    failure: str, error: KafkaException | TimeoutError, denied: Forbidden | None = None
) -> LogError:
    """Makes the error to raise: Unavailable for a failure that may pass by itself, else LogError.

    error: TimeoutError of a future of the client for administrators.
    denied: the error to raise for a refusal because of missing rights.
    """
    if isinstance(error, TimeoutError):
        return Unavailable(f"{failure}: no answer")
    if denied is not None and error.args[0].code() in _DENIED:
        return denied
    kind = Unavailable if is_transient(error) else LogError
    leaderless = error.args[0].code() in _LEADERLESS
    reason = "no broker leads it now; waits for one" if leaderless else error_text(error)
    return kind(f"{failure}: {reason}")


_PATIENCE = 1.0  # seconds to wait for each answer
_SERVERS = 2  # how many bootstrap servers are tried
_VERSIONS, _METADATA = 18, 3  # API keys of Kafka's ApiVersions and Metadata requests
# Reasons of a failed TLS handshake with a server that does not speak TLS.
_NO_TLS = {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"}


def protocol_mismatch(settings: Mapping[str, object]) -> str:
    """Describes how a client's security.protocol differs from the protocol of a bootstrap server.

    settings: of librdkafka; none of them is sent. Returns an empty text if no difference is
    detected.
    """
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    for server in str(settings["bootstrap.servers"]).split(",")[:_SERVERS]:
        host, _, port = server.rpartition("://")[2].strip().rpartition(":")
        if not host or not port.isdigit():
            continue
        endpoint = host.strip("[]"), int(port)
        tls = "ssl" in protocol
        wrong, speaks = (
            (_answers(endpoint, _VERSIONS), "no TLS") if tls else (_speaks_tls(endpoint), "TLS")
        )
        if not wrong and "sasl" not in protocol and _answers(endpoint, _VERSIONS, tls):
            wrong = not _answers(endpoint, _METADATA, tls)
            speaks = "to nobody who does not authenticate"
        if wrong:
            return f"{server} speaks {speaks}, and security.protocol is '{protocol}'"
    return ""


def _over_tls(plain: socket.socket) -> ssl.SSLSocket:
    """Opens TLS on a connection without checking the server: nothing of ours is sent on it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def _speaks_tls(endpoint: tuple[str, int]) -> bool:
    """Whether a broker answers a TLS handshake, if only to refuse the certificate."""
    try:
        with socket.create_connection(endpoint, _PATIENCE) as plain, _over_tls(plain):
            return True
    except ssl.SSLError as error:
        return error.reason is not None and error.reason not in _NO_TLS
    except OSError:
        return False


def _answers(endpoint: tuple[str, int], request: int, tls: bool = False) -> bool:
    """Tells whether a broker answers a request without authentication, and with or without TLS."""
    # API key, version, correlation id, no client id; for Metadata also an empty list of topics.
    body = struct.pack(">hhih", request, 0, 1, -1) + (b"\0" * 4 if request == _METADATA else b"")
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection(endpoint, _PATIENCE))
            if tls:
                connection = stack.enter_context(_over_tls(connection))
            connection.sendall(struct.pack(">i", len(body)) + body)
            first = b""
            while len(first) < 8 and (data := connection.recv(8 - len(first))):
                first += data
        return len(first) == 8 and first[4:] == struct.pack(">i", 1)
    except OSError:
        return False


_FIRST, _LONGEST = 1.0, 8.0  # seconds that a request may take
_LOOK_UP = 1.0  # seconds for a look-up of the controller and of a topic's leaders
_PAUSE, _LONGEST_PAUSE = 0.05, 0.4  # seconds between two requests
_DISTRUST = {KafkaError._AUTHENTICATION, KafkaError._SSL}
_Answer = TypeVar("_Answer")


def answer_of(future: Future[_Answer], seconds: float) -> _Answer:
    """Waits for the answer to a request. seconds: the request's own time-out.

    The client ends a request that is out of time; a busy process learns of that later.
    """
    error = future.exception(seconds + TIMEOUT)
    if error is None:
        return future.result()
    # The future keeps its error: raised itself, that would keep the frames and their client alive.
    raise type(error)(*error.args)


class ClusterAdmin:
    """A client for administrators, and why the cluster and this client distrust each other.

    settings: librdkafka's connection settings.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._refusal, self._answered = "", False
        self._client: Any = new_client(AdminClient, {**settings, "error_cb": self._note_refusal})

    def close(self) -> None:
        """Ends the client. The client's callback refers to this object, so neither would go."""
        self._client = None

    def ask(
        self,
        failure: str,
        request: Callable[[Any, float], _Answer],
        topics: Sequence[str],
        denied: Forbidden | None = None,
    ) -> _Answer:
        """Repeats a request until the cluster answers, refuses this client, or TIMEOUT is over.

        failure: begins the text of the error.
        request: takes the client and the seconds that the cluster may take; see `answer_of`.
        topics: full names of the topics that the request is about, one at least.
        denied: the error for missing rights; by default that to see the first of the topics.

        Raises Unavailable for a failure that may pass by itself, LogError for any other.
        """
        deadline, seconds, pause = clock_module.monotonic() + TIMEOUT, _FIRST, _PAUSE
        self._refusal = ""
        while True:
            try:
                answer = request(self._client, seconds)
            except (KafkaException, TimeoutError) as error:
                # Its frames would keep the client alive, as long as somebody keeps our error.
                error.__traceback__ = None
                late = clock_module.monotonic() > deadline
                self._require_trust(late or (seconds > _FIRST and not self._answered))
                if late or not (is_transient(error) or error.args[0].code() in _DISTRUST):
                    raise log_error(failure, error, denied or unseen(topics[0])) from None
            else:
                self._answered = True
                return answer
            clock_module.sleep(pause)
            for topic in topics:
                with suppress(KafkaException):
                    self._client.list_topics(topic, timeout=_LOOK_UP)
            seconds, pause = min(2 * seconds, _LONGEST), min(2 * pause, _LONGEST_PAUSE)

    def _require_trust(self, lasting: bool) -> None:
        """Raises LogError if the cluster and this client distrust each other; Untrusted if they
        did not before, because a new process reads new certificates and passwords.

        lasting: whether distrust is no longer that of a broker that has just started.
        """
        self._client.poll(0)
        if not lasting:
            return
        if not self._refusal and not self._answered:
            mismatch = protocol_mismatch(self._settings)
            self._refusal = f"no connection: {mismatch}" if mismatch else ""
        if self._refusal and self._answered:
            advice = "start again once the new certificates or passwords are in place"
            raise Untrusted(f"kafka: {self._refusal}; {advice}") from None
        if self._refusal:
            raise LogError(f"kafka: {self._refusal}") from None

    def _note_refusal(self, error: KafkaError) -> None:
        """Notes why a broker and this client distrust the other. The text holds no secret."""
        text = str(error.str()).partition(" (after ")[0]
        if error.code() in _DISTRUST or "SSL alert" in text:
            login = "SASL authentication error" in text
            self._refusal = f"{'the login is refused' if login else 'no connection'}: {text}"
