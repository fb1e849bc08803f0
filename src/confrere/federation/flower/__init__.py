"""The Flower engine: parties on other machines, with TLS and node keys.

Needs ``pip install 'confrere[flower]'``. Everything else in this library works without it.
"""

from confrere.federation.flower.engine import FlowerFederation
from confrere.federation.flower.keys import make_authority, make_node_key
from confrere.federation.flower.launch import Coordinator, run_coordinator
from confrere.federation.flower.node import run_party
from confrere.federation.flower.party_app import party_app
from confrere.federation.flower.party_file import load_party

__all__ = [
    "Coordinator",
    "FlowerFederation",
    "load_party",
    "make_authority",
    "make_node_key",
    "party_app",
    "run_coordinator",
    "run_party",
]
