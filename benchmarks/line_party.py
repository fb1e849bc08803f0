"""A party of the line that sends back what it is sent, and loads nothing that it does not need."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from confrere_federation.engines.keys import read_node_key
from confrere_federation.engines.line import run_party
from confrere_federation.progress import Progress


class Echo:
    """Sends back what it is sent, until it is sent nothing."""

    finished = False
    state = "answered"
    told: ClassVar[list[dict[str, Any]]] = []

    def handle(self, question: bytes) -> bytes:
        self.finished = not question
        return question


def main(folder: str, name: str, address: str) -> None:
    home = Path(folder) / f"home-{name}"
    home.mkdir()
    run_party(
        Echo(),
        coordinator=address,
        authority=Path(folder) / "authority/ca.pem",
        key=read_node_key(Path(folder) / name),
        progress=Progress(home),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
