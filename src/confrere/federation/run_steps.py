"""Who was asked what in a run, who answered, what it cost them, and who was left out and why.

For people who watch: nothing depends on it, and nothing but names, codes and prices is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from confrere.ledger import Receipt

#: More steps than this are not remembered: a page with them could not be read.
_MOST = 200


class RunSteps:
    """The steps of a run, as far as it has come.

    Attributes
    ----------
    changed : callable or None
        Is called whenever there is something new to tell.
    """

    def __init__(self) -> None:
        self.changed: Callable[[], None] | None = None
        self._steps: dict[tuple[str, int], dict[str, Any]] = {}

    def asked(
        self, operation: str, step: int, names: Iterable[str], timeout: float | None = None
    ) -> None:
        """Note a question, and until when its answers are waited for."""
        now = datetime.now(UTC)
        until = (
            None
            if timeout is None
            else (now + timedelta(seconds=timeout)).isoformat("T", "seconds")
        )
        told = self._steps.setdefault(
            (operation, step), {"operation": operation, "step": step, "parties": {}}
        )
        told |= {"since": now.isoformat(timespec="seconds"), "until": until}
        told["parties"] |= {name: {"state": "asked"} for name in names}
        while len(self._steps) > _MOST:
            del self._steps[next(iter(self._steps))]
        self._tell()

    def answered(self, operation: str, step: int, name: str, receipt: Receipt | None) -> None:
        """Note an answer that was used, and what the party paid for it."""
        paid = {} if receipt is None else {"epsilon": receipt.guarantee.epsilon, "row": receipt.row}
        self._note(operation, step, name, {"state": "answered", **paid})

    def dropped(self, operation: str, step: int, name: str, code: str) -> None:
        """Note that a party was left out of a step, and why."""
        self._note(operation, step, name, {"state": "dropped", "code": code})

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain values, for JSON."""
        return [
            {**told, "parties": {name: dict(one) for name, one in told["parties"].items()}}
            for told in self._steps.values()
        ]

    def _note(self, operation: str, step: int, name: str, told: dict[str, Any]) -> None:
        if (operation, step) not in self._steps:
            self.asked(operation, step, [name])
        self._steps[operation, step]["parties"][name] = told
        self._tell()

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()
