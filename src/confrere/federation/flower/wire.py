"""What both ends of the line agree on, and the one version of Flower that they were made for."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

from confrere.errors import EngineFailed
from confrere.federation.messages import MAX_MESSAGE

#: Its insides are used: another version is refused.
FLOWER = "1.41.0"

try:
    _found = version("flwr")
except PackageNotFoundError as error:
    raise ImportError("Flower is not installed") from error
if _found != FLOWER:
    raise EngineFailed(
        f"Flower {_found} is installed, and this was made for {FLOWER}: "
        "pip install 'confrere[flower]'."
    )
# Flower reads these when it is imported: nothing is contacted but the other end of the line.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

#: The one record in a message, its one entry, and the one kind of message.
RECORD, CONTENT, KIND = "confrere", "content", "query.confrere"

#: Names a connection; whoever connects later with the same key takes over.
SESSION_HEADER = "x-confrere-session"

#: All that exists of Flower's interfaces.
PATHS = frozenset(
    f"/v1/fleet/{name}"
    for name in ("activate-node", "send-node-heartbeat", "pull-messages", "push-messages")
)

#: The largest message, and the largest body in either direction: there is a frame around it.
MAX_CONTENT = MAX_MESSAGE
MAX_BODY = MAX_CONTENT + (1 << 16)

#: How long an empty poll is held before it is answered.
HOLD_SECONDS = 20.0

#: A party says so often that it is there; after two times nothing it is taken for gone.
BEAT_SECONDS = 10.0
