"""From a study to a kit for every participant: what each has to have, signed, in one file.

Private keys are made where they stay. A party sends a request, which holds the public halves;
whoever coordinates puts them into the study and makes the kits.
"""

from confrere_federation.kits.key_request import make_request, read_request, renew_node_key
from confrere_federation.kits.kits import make_kits, open_kit, show_kit
from confrere_federation.kits.nodes import admit, read_nodes, revoke

__all__ = [
    "admit",
    "make_kits",
    "make_request",
    "open_kit",
    "read_nodes",
    "read_request",
    "renew_node_key",
    "revoke",
    "show_kit",
]
