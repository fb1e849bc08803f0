"""A party's end of the line: Flower's fleet client, which asks for messages and answers them.

It fetches no run and no bundle, follows no redirect, reads no proxy from the environment, and
reads no more than a bounded answer.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from confrere.errors import EngineFailed
from confrere.federation.flower.wire import (
    BEAT_SECONDS,
    CONTENT,
    HOLD_SECONDS,
    MAX_BODY,
    MAX_CONTENT,
    RECORD,
    SESSION_HEADER,
)

_CONNECT_SECONDS = 10.0
_READ_SECONDS = HOLD_SECONDS + 20.0


class LineLost(Exception):
    """Nobody is there, or no longer, or not who was expected; ``state`` says it to people."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


@dataclass(frozen=True)
class Asked:
    """A message from the coordinator."""

    content: bytes
    message: Message


class Line:
    """One connection to a coordinator, from its activation until it is lost.

    Parameters
    ----------
    address : str
        The coordinator's ``host:port``.
    context : SSLContext
        Its authority, and our certificate.
    key : EllipticCurvePrivateKey
        The node's.
    """

    def __init__(self, address: str, context: ssl.SSLContext, key: ec.EllipticCurvePrivateKey):
        self._public = public_key_to_bytes(key.public_key())
        self._session = secrets.token_hex(16)
        self._client = _client(address, context, key, self._session)
        self._beating: Callable[[], FleetHttpClient] = partial(
            _client, address, context, key, self._session
        )
        self._node = Node()

    def __enter__(self) -> Self:
        """Connect; a later connection with the same key takes this one's place."""
        try:
            request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=BEAT_SECONDS)
            with _told():
                self._node = Node(node_id=self._client.ActivateNode(request).node_id)
        except LineLost as lost:
            self._client.close()
            # Servers hang up on an unknown certificate, and not all of them say why.
            raise LineLost(_UNKNOWN if lost.state == _LOST else lost.state) from None
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def poll(self) -> Asked | None:
        """Wait for a message; None if there was none for a while."""
        with _told():
            response = self._client.PullMessages(PullMessagesRequest(node=self._node))
            if not response.messages_list:
                return None
            message = message_from_proto(response.messages_list[0])
            content = _content(message)
        return Asked(content, message)

    def reply(self, asked: Asked, content: bytes) -> None:
        """Send what a message is answered with."""
        if len(content) > MAX_CONTENT:
            raise EngineFailed(f"an answer of {len(content)} bytes is beyond {MAX_CONTENT}.")
        record = RecordDict({RECORD: ConfigRecord({CONTENT: content})})
        reply = Message(record, reply_to=asked.message)
        name = secrets.token_hex(32)
        reply.metadata.__dict__["_message_id"] = name
        with _told():
            self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(reply)],
                    message_object_trees=[ObjectTree(object_id=name)],
                )
            )

    @contextmanager
    def beats(self) -> Iterator[Callable[[], None]]:
        """Return what says that we are still here, for a thread that does nothing else.

        It has connections of its own. One that another thread closes while it is written to may
        have become another file by then: a ledger would get what was meant for the network.
        """
        client = self._beating()

        def beat() -> None:
            with _told():
                client.SendNodeHeartbeat(
                    SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=BEAT_SECONDS)
                )

        try:
            yield beat
        finally:
            client.close()


def _client(
    address: str, context: ssl.SSLContext, key: ec.EllipticCurvePrivateKey, session: str
) -> FleetHttpClient:
    client = FleetHttpClient(
        f"https://{address}",
        interceptors=[NodeAuthHttpInterceptor(key, key.public_key()), _Session(session)],
        verify=context,
    )
    client._client.close()
    client._client = httpx.Client(
        transport=_Bounded(httpx.HTTPTransport(verify=context, trust_env=False)),
        timeout=httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
    )
    return client


class _Session:
    """Names the connection in every request."""

    def __init__(self, name: str) -> None:
        self._name = name

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers[SESSION_HEADER] = self._name
        context.request.headers["accept-encoding"] = "identity"
        return call_next(context)


class _Bounded(httpx.BaseTransport):
    """Responses of bounded size, as they are."""

    def __init__(self, inner: httpx.HTTPTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        if "content-encoding" in response.headers:
            response.close()
            raise httpx.ReadError("a packed answer", request=request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._inner.close()


class _Counted(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._inner:
            size += len(part)
            if size > MAX_BODY:
                raise httpx.ReadError("an answer beyond all bounds")
            yield part

    def close(self) -> None:
        self._inner.close()


@contextmanager
def _told() -> Iterator[None]:
    """Say what a failed call means, in words for the operator."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        if code == 409:
            raise EngineFailed(
                "another process has connected with this node key; one key is for one place. "
                "End the other one, or find out who has the key."
            ) from None
        raise LineLost(_STATES.get(code, f"the coordinator answers with code {code}")) from None
    except httpx.HTTPError as error:
        raise LineLost(_transport_state(error)) from None
    except (ValueError, TypeError, KeyError):
        raise LineLost("what answers at this address is not a coordinator") from None


_LOST = "the line to the coordinator is lost"
_UNKNOWN = "the coordinator hangs up: has it this node's certificate?"
_STATES = {
    401: "refused: the coordinator does not know this key, or the clocks differ",
    403: "refused: the coordinator does not know this key",
    412: "the coordinator was started again",
    410: "the coordinator ends",
    429: "refused: too many connections with this node key; who else has it?",
    503: "the coordinator is busy; it is asked again",
}


def _transport_state(error: httpx.HTTPError) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "what answers at this address is not the coordinator of the authority's certificate"
    if "alert" in text.lower():
        return _UNKNOWN
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "nobody at this address yet"
    return _LOST


def _content(message: Message) -> bytes:
    content = message.content.config_records[RECORD][CONTENT]
    if not isinstance(content, bytes):
        raise TypeError("not a message of ours")
    return content
