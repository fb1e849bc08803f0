"""The engine of consortia: stock NVIDIA FLARE carries the messages.

A job names the two classes of this file and gives them no arguments: what a site does stands in its
own folder, which ``CONFRERE_FLARE`` names to the site's FLARE. Both classes only carry. Behind them
the same commands run as on the line, in processes of their own: a coordinator's, with its key and
journal, and a party's, whose rows are read without a network. FLARE's certificates say who may
connect; our keys, approvals and replay lie above them. Each looks at every start whether the site's
FLARE would run anything else (:mod:`~confrere_federation.engines.flare_site`): nothing, if so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from typing_extensions import override

from confrere.errors import EngineFailed
from confrere_federation.engines.carrier import MAX_MESSAGE
from confrere_federation.engines.flare_site import FOLDER, TASK, check_site
from confrere_federation.engines.line import framed, heard

_CONTENT = "content"
_TICK_SECONDS = 0.5
_TRIES = 6
_COORDINATOR = ["confrere.cli", "coordinator", "study.toml"]
_PUBLIC = "auxiliary.csv"  # the rows that a study names by their hash, where it has parties vote
_PARTY = ["confrere_federation.commands.party"]


class Coordinator(Controller):  # type: ignore[misc]
    """What carries a coordinator's questions, as a workflow of FLARE's."""

    @override
    def start_controller(self, fl_ctx: FLContext) -> None:
        check_site(Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT)), server=True)

    @override
    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        public = Path(os.environ.get(FOLDER, ""), _PUBLIC).exists()
        pipe, asking = _begin([*_COORDINATOR, *(["--auxiliary", _PUBLIC] if public else [])])
        said, here = threading.Lock(), set[str]()
        questions: dict[str, tuple[int, bytes]] = {}  # asked, and not replied to
        tasks: dict[str, Task] = {}

        def say(kind: str, name: str, number: int = 0, body: bytes = b"") -> None:
            with said:
                pipe.send_bytes(framed(kind, [name], number, body))

        def replied(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001
            name, number = client_task.client.name, client_task.task.props["number"]
            reply = client_task.result.get(_CONTENT)
            if questions.get(name, (0,))[0] == number:
                questions.pop(name, None)  # who cannot answer is not asked over and over
            if isinstance(reply, bytes) and len(reply) <= MAX_MESSAGE:
                say("reply", name, number, reply)

        def send() -> None:
            """Send what no task carries: who was away, or lost its task, is asked again."""
            for name, (number, body) in list(questions.items()):
                task = tasks.get(name)
                if name in here and (task is None or task.completion_status is not None):
                    data, props = Shareable({_CONTENT: body}), {"number": number}
                    tasks[name] = Task(TASK, data, props, result_received_cb=replied)
                    self.send(tasks[name], fl_ctx, targets=[name])

        try:
            while asking.poll() is None and not abort_signal.triggered:
                now = {client.name for client in fl_ctx.get_engine().get_clients()}
                for name in now ^ here:
                    say("here" if name in now else "gone", name)
                here = now
                send()
                while asking.poll() is None and pipe.poll(_TICK_SECONDS):
                    (kind, names, number), body = heard(pipe.recv_bytes())
                    for name in names:
                        questions.pop(name, None)
                        if name in tasks:
                            self.cancel_task(tasks.pop(name))
                        if kind == "ask":
                            questions[name] = number, body
                    send()
        except (OSError, EOFError):
            pass  # it has ended
        finally:
            pipe.close()
        if asking.wait() != 0:
            self.system_panic("the coordinator has not released: see its own folder", fl_ctx)

    @override
    def process_result_of_unknown_task(self, *_: object, **__: object) -> None:
        """Let a reply that comes too late be no reply."""

    @override
    def stop_controller(self, fl_ctx: FLContext) -> None:
        """End: all that must last is in files."""


class FlareParty(Executor):  # type: ignore[misc]
    """What carries a party's answers."""

    def __init__(self) -> None:
        super().__init__()
        self._pipe: Connection | None = None

    @override
    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            check_site(Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT)), server=False)
            self._pipe, _ = _begin(_PARTY)
        elif event_type == EventType.END_RUN and self._pipe is not None:
            self._pipe.close()

    @override
    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        content = shareable.get(_CONTENT)
        if task_name != TASK or not isinstance(content, bytes) or len(content) > MAX_MESSAGE:
            return make_reply(ReturnCode.BAD_TASK_DATA)
        if self._pipe is None:
            raise EngineFailed("this site does not take part: see what it said when it started.")
        for _ in range(_TRIES):
            with suppress(EOFError, OSError):
                self._pipe.send_bytes(content)
                return Shareable({_CONTENT: self._pipe.recv_bytes()})
            time.sleep(_TICK_SECONDS)  # who was killed is started again, and sends the same
            self._pipe, _ = _begin(_PARTY)
        raise EngineFailed("what answers for this party ends when it is asked: see what it says.")


def _begin(command: list[str]) -> tuple[Connection, subprocess.Popen[bytes]]:
    """Start a command of ours in the study's folder, and return what it hears on standard input."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise EngineFailed(f"{FOLDER} must name the study's folder, where FLARE is started.")
    ours, theirs = Pipe()
    words = [sys.executable, "-P", "-m", *command]
    with theirs:
        return ours, subprocess.Popen(words, cwd=folder, stdin=theirs.fileno())  # noqa: S603
