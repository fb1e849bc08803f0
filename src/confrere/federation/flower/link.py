"""The coordinator's end of the line: Flower's fleet API, and nothing else of Flower's, in-process.

Flower authenticates nodes by their keys and keeps the messages between them and us in memory. None
of its other interfaces (control, runtime, bundles, health, documentation) exists in this process.
A message is one record of bytes; what is in it is the boundary's.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI
from flwr.app import ConfigRecord, RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import (
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
)
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from confrere.errors import EngineFailed, InvalidParameter
from confrere.federation.flower.door import MAX_CONNECTIONS, Door, Loop, Punctual
from confrere.federation.flower.wire import (
    CONTENT,
    HOLD_SECONDS,
    KIND,
    MAX_CONTENT,
    PATHS,
    RECORD,
    SESSION_HEADER,
)

_LIFE_SECONDS = 30 * 24 * 3600.0
_BEAT_SECONDS = 10.0
_START_SECONDS = 30.0
_STOP_SECONDS = 5


class _State(InMemoryLinkState):
    """Flower's state for messages that have no objects beside them.

    Flower keeps a session for every push until its objects have come; none ever come, and a
    coordinator that asks for days must not remember them.
    """

    def start_session(self, run_id: int) -> str:  # noqa: ARG002
        """Begin nothing."""
        return ""

    def preregister_object_tree(
        self,
        object_tree: ObjectTree,
        session_id: str,  # noqa: ARG002
    ) -> list[str]:
        """Note the message; nothing is missing."""
        self.object_store.preregister(0, object_tree)
        return []


class Link:
    """Who may connect, what each of them is asked, and what came back.

    Parameters
    ----------
    keys : mapping of str to bytes
        The public key of every party, as PEM: the only ones that are let in.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._state = _State(NoOpFederationManager(), InMemoryObjectStore())
        self._nodes = {
            name: self._state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0, name=name)
            for name, key in keys.items()
        }
        self._run, self._task = self._begin_run()
        self._sessions: dict[int, str] = {}
        self._times: dict[int, int] = dict.fromkeys(self._nodes.values(), 0)
        self._open: dict[str, str] = {}
        self._changed = threading.Event()
        self._bells: dict[int, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self.app = FastAPI(
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            middleware=[
                Middleware(Door, paths=PATHS),
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(NodeAuthMiddleware),
                Middleware(BaseHTTPMiddleware, dispatch=self._own_name),
            ],
        )
        self.app.state.linkstate_factory = self
        self.app.state.enable_supernode_auth = True
        self.app.include_router(fleet_router)

    def state(self) -> _State:
        """Return what Flower's handlers work on."""
        return self._state

    # What a coordinator does, from its own thread.

    def connected(self) -> dict[str, int]:
        """Return which parties are connected, and how many times each of them has come."""
        online = self._state.get_nodes(self._run)
        return {name: self._times[node] for name, node in self._nodes.items() if node in online}

    def send(self, party: str, content: bytes) -> bool:
        """Give a party something to fetch, in place of what it had not answered yet.

        False if it has just gone.
        """
        if len(content) > MAX_CONTENT:
            raise InvalidParameter(f"a message of {len(content)} bytes is beyond {MAX_CONTENT}.")
        self.withdraw(party)
        node = self._nodes[party]
        metadata = Metadata(
            run_id=self._run,
            message_id=secrets.token_hex(32),
            src_node_id=SUPERLINK_NODE_ID,
            dst_node_id=node,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=_LIFE_SECONDS,
            message_type=KIND,
        )
        message = make_message(metadata, RecordDict({RECORD: ConfigRecord({CONTENT: content})}))
        stored, _ = self._state.store_message_and_object_tree(
            message,
            ObjectTree(object_id=metadata.message_id),
            self._state.start_session(self._run),
        )
        if not stored:
            self._forget(metadata.message_id)
            return False
        self._open[party] = metadata.message_id
        self._ring(node)
        return True

    def replies(self) -> dict[str, bytes]:
        """Return what has come back since, and forget it here."""
        online = self._state.get_nodes(self._run)
        # Of a node that is away Flower would make up an error.
        asked = {i: name for name, i in self._open.items() if self._nodes[name] in online}
        found: dict[str, bytes] = {}
        for message in self._state.get_message_res(set(asked), self._run) if asked else ():
            name = asked[message.metadata.reply_to_message_id]
            found[name] = _content(message.content) if message.has_content() else b""
            self._forget(message.metadata.message_id)
            self.withdraw(name)
        return found

    def withdraw(self, party: str) -> None:
        """Take back what a party was asked."""
        message = self._open.pop(party, None)
        if message is not None:
            self._state.delete_messages({message})
            self._forget(message)

    def wait(self, seconds: float) -> None:
        """Wait until somebody has come or answered, or for a while."""
        self._changed.wait(seconds)
        self._changed.clear()

    @contextmanager
    def serving(self, listener: socket.socket, context: ssl.SSLContext) -> Iterator[None]:
        """Serve parties in a thread of its own, and none when that is over."""
        config = uvicorn.Config(
            self.app,
            http=Punctual,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=_STOP_SECONDS,
            limit_concurrency=64 + MAX_CONNECTIONS * len(self._nodes),
            ssl_context_factory=lambda *_: context,
        )
        server = uvicorn.Server(config)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=Loop) as runner:
                    runner.run(self._serve(server, listener))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work, name="confrere-link", daemon=True)
        thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not server.started:
            if failures or not thread.is_alive() or time.monotonic() > deadline:
                raise EngineFailed("the coordinator's server did not start.") from (
                    failures[0] if failures else None
                )
            time.sleep(0.01)
        try:
            yield
        finally:
            self._closing = True
            for node in self._nodes.values():
                self._ring(node)
            server.should_exit = True
            thread.join(2 * _STOP_SECONDS)
            listener.close()

    # What happens in the server's thread.

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        loop = self._loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        self._bells = {node: asyncio.Event() for node in self._nodes.values()}
        beating = asyncio.create_task(self._beat())
        try:
            await server.serve(sockets=[listener])
        finally:
            beating.cancel()
            await loop.hang_up()

    async def _beat(self) -> None:
        # Flower takes a run whose task is silent for dead.
        while True:
            self._state.acknowledge_task_heartbeat(self._task)
            await asyncio.sleep(_BEAT_SECONDS)

    async def _own_name(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """See that a node speaks for itself only, from one place only; hold polls.

        Flower has authenticated the node by now.
        """
        asked = request.state.protobuf_request
        session = request.headers.get(SESSION_HEADER, "")
        if not 0 < len(session) <= 64:
            return PlainTextResponse("", 400)
        if isinstance(asked, ActivateNodeRequest):
            return await self._activate(asked, session, request, call_next)
        node: int = asked.node.node_id
        if node not in self._sessions:
            return _told(412, "activate first")
        if self._sessions[node] != session:
            return _told(409, "another process with this node key has connected since")
        if isinstance(asked, PullMessagesRequest):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._bells[node].wait(), HOLD_SECONDS)
            if self._sessions[node] != session:
                return _told(409, "another process with this node key has connected since")
            if self._closing:
                return _told(410, "the coordinator ends")
            self._bells[node].clear()
        if isinstance(asked, PushMessagesRequest) and not _is_own_reply(asked, node):
            return _told(400, "not a reply of this node")
        response = await call_next(request)
        if isinstance(asked, PushMessagesRequest):
            self._changed.set()
        return response

    async def _activate(
        self,
        asked: ActivateNodeRequest,
        session: str,
        request: Request,
        call_next: RequestResponseEndpoint,
    ) -> Response:
        node = self._state.get_node_id_by_public_key(asked.public_key)
        if node is None:
            return _told(403, "this node key is not registered")
        # A party that was killed need not wait until Flower takes it for gone.
        self._state.deactivate_node(node)
        response = await call_next(request)
        if response.status_code < 400:
            self._sessions[node] = session
            self._times[node] += 1
            self._bells[node].set()
            self._changed.set()
        return response

    # Small things.

    def _begin_run(self) -> tuple[int, int]:
        run = self._state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        (info,) = self._state.get_run_info(run_ids=[run])
        task = info.primary_task_id
        if task is None or self._state.claim_task(task) is None:
            raise EngineFailed("Flower did not begin a run.")
        self._state.activate_task(task)
        return run, task

    def _ring(self, node: int) -> None:
        if self._loop is not None and node in self._bells:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._bells[node].set)

    def _forget(self, message: str) -> None:
        self._state.object_store.delete(message)


def _is_own_reply(asked: PushMessagesRequest, node: int) -> bool:
    """Whether it is one reply, of this node, of one record of bytes, with no objects beside it."""
    if len(asked.messages_list) != 1 or len(asked.message_object_trees) != 1:
        return False
    message, tree = asked.messages_list[0], asked.message_object_trees[0]
    return bool(
        message.metadata.src_node_id == node
        and tree.object_id == message.metadata.message_id
        and not tree.children
        and not asked.clientapp_runtime_list
        and not message.HasField("error")
        and _is_bytes(message.content)
    )


def _is_bytes(content: ProtoRecordDict) -> bool:
    """Whether a record dict is one config record with one entry of bytes."""
    if len(content.items) != 1 or content.items[0].key != RECORD:
        return False
    entries = content.items[0].config_record.items
    return len(entries) == 1 and entries[0].key == CONTENT and entries[0].value.HasField("bytes")


def _content(record: RecordDict) -> bytes:
    content = record.config_records[RECORD][CONTENT]
    return content if isinstance(content, bytes) else b""


def _told(status: int, words: str) -> Response:
    # Flower's translation lets only JSON errors pass.
    return Response(f'{{"detail": "{words}"}}', status, media_type="application/json")
