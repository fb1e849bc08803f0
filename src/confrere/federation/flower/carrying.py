"""A coordinator's line to its parties: a port of its own, and questions that find who is back."""

from __future__ import annotations

import errno
import logging
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

from confrere.errors import EngineFailed, InvalidParameter
from confrere.federation.flower.door import Listener, server_context
from confrere.federation.flower.keys import (
    Authority,
    certificate_text,
    public_pem,
    read_certificate,
)
from confrere.federation.flower.link import Link
from confrere.federation.messages import PartyError

_TICK_SECONDS = 1.0

#: Who is where: "nobody yet", "connected", "asked", "answered".
Told = Callable[[Mapping[str, str]], None]


class FlowerCarrier:
    """Moves bytes between a coordinator and its parties; see ``Carrier``.

    Parameters
    ----------
    link : Link
        The line.
    parties : sequence of str
        Everybody who has a key.
    tell : callable, optional
        Is given where every party is, whenever that has changed.
    """

    def __init__(self, link: Link, parties: list[str], tell: Told | None = None) -> None:
        self._link = link
        self._tell = tell
        self._states = dict.fromkeys(parties, "nobody yet")

    def connected(self) -> list[str]:
        """Return the names of the parties that can be reached now, sorted."""
        now = self._link.connected()
        self._note(now)
        return sorted(now)

    def await_parties(self, names: list[str], timeout: float) -> list[str]:
        """Wait until all of these are connected; return who is not when the time is up."""
        deadline = time.monotonic() + timeout
        while True:
            missing = [name for name in names if name not in self.connected()]
            if not missing or time.monotonic() > deadline:
                return missing
            self._link.wait(_TICK_SECONDS)

    def exchange(
        self, questions: Mapping[str, bytes], timeout: float | None = None
    ) -> dict[str, bytes | PartyError]:
        """Send every party its question, as often as it comes back, and wait for the replies."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        found: dict[str, bytes | PartyError] = {}
        asked: dict[str, int] = {}
        try:
            while True:
                now = self._link.connected()
                for name in questions.keys() - found.keys():
                    # A question that a killed party had taken is lost: it is sent to the next.
                    if name not in now or asked.get(name) == now[name]:
                        continue
                    if self._link.send(name, questions[name]):
                        asked[name] = now[name]
                        self._states[name] = "asked"
                for name, reply in self._link.replies().items():
                    found[name] = reply
                    self._states[name] = "answered"
                self._note(now)
                if len(found) == len(questions) or time.monotonic() >= deadline:
                    break
                self._link.wait(min(_TICK_SECONDS, max(0.0, deadline - time.monotonic())))
        finally:
            for name in questions:
                self._link.withdraw(name)
        for name in questions.keys() - found.keys():
            found[name] = PartyError("Timeout" if name in asked else "Unreachable")
        return {name: found[name] for name in questions}

    def _note(self, connected: Mapping[str, int]) -> None:
        before = dict(self._states)
        for name, state in before.items():
            if name not in connected:
                self._states[name] = "gone" if state not in ("nobody yet", "gone") else state
            elif state in ("nobody yet", "gone"):
                self._states[name] = "connected"
        if self._tell is not None:
            self._tell(dict(self._states))


@contextmanager
def carrying(
    *,
    nodes: Mapping[str, Path],
    authority: Authority,
    host: str,
    port: int,
    log: Path | None = None,
    tell: Told | None = None,
) -> Iterator[FlowerCarrier]:
    """Listen for parties as long as the context lasts.

    Parameters
    ----------
    nodes : mapping of str to Path
        The certificate of every party that may connect.
    authority : Authority
        The coordinator's own certificate.
    host, port
        Where to listen.
    log : Path, optional
        Where Flower's warnings go: two files of a megabyte at most.
    tell : callable, optional
        See :class:`FlowerCarrier`.
    """
    certificates = {name: read_certificate(path) for name, path in nodes.items()}
    keys = {name: public_pem(certificate) for name, certificate in certificates.items()}
    for name, key in keys.items():
        twin = next((other for other, k in keys.items() if k == key and other != name), None)
        if twin is not None:
            raise InvalidParameter(f"node: {name} and {twin} have the same key; each needs one.")
    context = server_context(
        authority.server_certificate,
        authority.server_key,
        [certificate_text(certificate) for certificate in certificates.values()],
    )
    link = Link(keys)
    with _logging(log), link.serving(_listen(host, port, len(nodes)), context):
        yield FlowerCarrier(link, list(nodes), tell)


@contextmanager
def _logging(path: Path | None) -> Iterator[None]:
    # What strangers do is not for the operator's terminal, and must not fill a disk.
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        handler = RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in ("flwr", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        handler.close()
        for logger in loggers:
            logger.handlers = [logging.NullHandler()]


def _listen(host: str, port: int, parties: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return Listener.on((host, port), family, parties=parties)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise EngineFailed(
                f"port {port} of {host} is in use; end the program that listens there, or give "
                "another --port."
            ) from None
        raise EngineFailed(
            f"cannot listen on {host}:{port} ({error.strerror}); give an address of this machine "
            "and a port that you may use."
        ) from None
