"""The officer's file: an impact assessment, filled from what is declared, recorded and released.

What only the organisation knows, at most ten lines, is left to be filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from confrere.release import Card
from confrere.views import amount, shown

#: What nobody but the organisation knows, and where the law asks for it.
TO_FILL_IN = (
    ("Controller, contact of the data-protection officer", "Art. 13, 30"),
    ("Legal basis of the processing; of special categories", "Art. 6, 9"),
    ("Whether data subjects or their representatives were asked", "Art. 35(9)"),
    ("How long the table is kept", "Art. 5(1)(e)"),
    ("Transfers outside the Union by another participant", "Art. 44"),
    ("Who oversees the model's use, and how a person contests a decision", "Art. 22; AI Act 14"),
    ("Whether the use is high-risk, and under which point", "AI Act 6, annex III"),
    ("Remaining risk, in your judgement; prior consultation needed?", "Art. 35(7)(c), 36"),
    ("When this is looked at again", "Art. 35(11)"),
    ("Date, name, signature", ""),
)


def assessment_page(
    study: Mapping[str, Any],  # What a study declares, and how it stands at the parties here
    *,
    method: str,  # What it does, in a few words
    asker: str | None,  # Fingerprint of the coordinator's key, where it is known
    keys: Mapping[str, str],  # Those of the parties
    card: Card | None = None,  # Of what came of it
) -> str:
    """Return one self-contained HTML page, made to be printed and filed."""
    return _ENVIRONMENT.get_template("assessment.html.j2").render(
        study=study,
        method=method,
        asker=asker,
        keys=keys,
        card=card,
        to_fill_in=TO_FILL_IN,
        made=f"{datetime.now(UTC):%Y-%m-%d}",
    )


_ENVIRONMENT = Environment(
    loader=PackageLoader("confrere.assurance", "templates"),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"shown": shown, "amount": amount}
