"""A party's process: it keeps the node alive that answers for the party."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from confrere.federation.flower.party_app import NODE_CONFIG
from confrere.federation.flower.programs import Program, alone, make_room

_NODE = "flower-supernode"

#: What a SuperLink tells a node whose key it does not know, or takes for connected still.
_REFUSED = "[code: 2004]"

#: A SuperLink takes a killed node for connected for a minute.
_PATIENCE_SECONDS = 180.0
_AGAIN_SECONDS = 5.0

logger = logging.getLogger("confrere.federation.flower")


def run_party(
    party_file: str | os.PathLike[str],
    *,
    superlink: str,
    authority: str | os.PathLike[str],
    key: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    port: int = 9094,
) -> None:
    """Answer a coordinator until interrupted.

    A node that was killed is started again; one that the coordinator refuses, because its key is
    not registered yet or its last connection has not lapsed, tries again for three minutes.

    Parameters
    ----------
    party_file : path-like
        See :func:`~confrere.federation.flower.load_party`.
    superlink : str
        The coordinator's ``host:port``.
    authority : path-like
        The authority's certificate.
    key : path-like
        The node's private key.
    folder : path-like
        Flower's files and the node's log.
    port : int, default=9094
        Local port between the node and the process that answers; bound to this machine only.

    Raises
    ------
    EngineFailed
        If the node cannot run; it names the cause and the log.

    Notes
    -----
    The bundle that a coordinator submits names code that the node runs. Run the node as a user that
    can read nothing but what its party file names, and pass only operations you agree with there.
    """
    place = Path(folder).resolve()
    arguments = (
        "--root-certificates",
        str(Path(authority).resolve()),
        "--superlink",
        superlink,
        "--auth-supernode-private-key",
        str(Path(key).resolve()),
        "--node-config",
        f'{NODE_CONFIG}="{Path(party_file).resolve()}"',
        "--port",
        str(port),
        "--isolation",
        "subprocess",
    )
    with alone(place, "node"):
        refused_since: float | None = None
        while True:
            make_room(place, _NODE, "127.0.0.1", port)
            began = time.monotonic()
            node = Program(_NODE, *arguments, folder=place)
            try:
                code = node.wait()
            finally:
                node.stop()
            if code == 0:
                return
            refused = _REFUSED in node.said()
            if code > 0 and not refused:
                raise node.failed(f"ended with code {code}")
            refused_since = (refused_since or began) if refused else None
            if refused_since and time.monotonic() - refused_since > _PATIENCE_SECONDS:
                raise node.failed(
                    "is refused: has the coordinator this key, and does no other node use it?"
                )
            logger.warning(
                "%s; trying again",
                "the coordinator refuses this node for now" if refused else "the node was killed",
            )
            time.sleep(_AGAIN_SECONDS)
