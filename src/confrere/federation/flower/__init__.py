"""The Flower engine: parties on other machines, over mutual TLS, one process per organisation.

Needs ``pip install 'confrere[flower]'``. Everything else in this library works without it.
"""

from confrere.federation.flower import wire
from confrere.federation.flower.answering import run_party
from confrere.federation.flower.carrying import FlowerCarrier, carrying
from confrere.federation.flower.keys import (
    is_locked,
    make_authority,
    make_node_key,
    read_node_key,
)
from confrere.federation.flower.progress import Progress, private, read_progress

#: The version of Flower that it works with, and no other.
FLOWER = wire.FLOWER

__all__ = [
    "FLOWER",
    "FlowerCarrier",
    "Progress",
    "carrying",
    "is_locked",
    "make_authority",
    "make_node_key",
    "private",
    "read_node_key",
    "read_progress",
    "run_party",
]
