"""The party's end of the Flower engine: bytes in, :func:`confrere.federation.answer`, bytes out."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from confrere.federation import LocalParty, answer
from confrere.federation.flower.engine import RECORD
from confrere.federation.flower.party_file import load_party

#: Where a node's configuration says which party file is its own.
NODE_CONFIG = "party"


def party_app(party_for: Callable[[Context], LocalParty] | None = None) -> ClientApp:
    """Return the ``ClientApp`` of a party.

    Parameters
    ----------
    party_for : callable, optional
        ``Context -> LocalParty``; by default the party file that the node's configuration names.
    """
    find = party_for or _from_node_config
    app = ClientApp()

    @app.query("confrere")
    def query(message: Message, context: Context) -> Message:
        local = find(context)
        record = message.content.get(RECORD)
        question = record.get("question") if isinstance(record, ConfigRecord) else None
        reply = answer(question, local) if isinstance(question, bytes) else b""
        content = ConfigRecord({"party": local.name, "reply": reply})
        return Message(RecordDict({RECORD: content}), reply_to=message)

    return app


def _from_node_config(context: Context) -> LocalParty:
    return load_party(str(context.node_config[NODE_CONFIG]))
