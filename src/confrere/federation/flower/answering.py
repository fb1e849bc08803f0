"""A party's process: it asks the coordinator for messages, answers them, and ends with the release.

It listens on no port and runs nothing but what is installed here. A line that is lost is taken up
again; an end that nobody asked for is an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confrere.errors import EngineFailed
from confrere.federation.flower.fleet import Line, LineLost
from confrere.federation.flower.keys import NodeKey
from confrere.federation.flower.wire import BEAT_SECONDS
from confrere.federation.signed import Answering
from confrere.progress import Progress

_AGAIN_SECONDS = 0.5
_AGAIN_MOST = 5.0
_FAREWELL_SECONDS = 15.0


def run_party(
    session: Answering,
    *,
    coordinator: str,
    authority: Path,
    key: NodeKey,
    progress: Progress,
    patience: float = 3600.0,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Answer a coordinator until the release is here.

    Parameters
    ----------
    session : Answering
        What questions are handed to.
    coordinator : str
        Its ``host:port``.
    authority : Path
        The certificate that vouches for it.
    key : NodeKey
        Who we are.
    progress : Progress
        Where the state is told.
    patience : float, default=3600
        Seconds without a coordinator after which waiting is given up.
    stopped : callable, optional
        Is asked while waiting; once it says so, nothing more is waited for.

    Raises
    ------
    EngineFailed
        If there was no coordinator for too long, or another process uses the key.
    """
    context = key.client_context(authority)
    pause, last = _AGAIN_SECONDS, time.monotonic()
    while True:
        try:
            with Line(coordinator, context, key.key) as line, _beating(line):
                progress.say("connected", steps=session.told)
                pause = _AGAIN_SECONDS
                while not stopped():
                    asked = line.poll()
                    last = time.monotonic()
                    if asked is None:
                        continue
                    progress.say("asked", steps=session.told)
                    reply = session.handle(asked.content)
                    line.reply(asked, reply)
                    last = time.monotonic()
                    progress.say(session.state, steps=session.told)
                    if session.finished:
                        return
            return
        except LineLost as lost:
            had = session.finished or session.state == "released"
            if had and time.monotonic() - last > _FAREWELL_SECONDS:
                return  # the release is here; the others' signatures may not be
            progress.say(lost.state, steps=session.told)
            if stopped():
                return
            if time.monotonic() - last > patience:
                raise EngineFailed(
                    f"no coordinator at {coordinator} for {patience:g} s: {lost.state}. "
                    "Start the party again when there is one."
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, _AGAIN_MOST)


@contextmanager
def _beating(line: Line) -> Iterator[None]:
    """Say in the background that the party is there, while it works on an answer too."""
    over = threading.Event()

    def keep_beating() -> None:
        with line.beats() as beat:
            while not over.wait(BEAT_SECONDS / 2):
                try:
                    beat()
                except LineLost:
                    continue  # the line's next call finds out by itself
                except EngineFailed:
                    return  # taken over

    thread = threading.Thread(target=keep_beating, name="confrere-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
