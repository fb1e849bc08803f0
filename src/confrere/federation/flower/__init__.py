"""The Flower engine: parties on other machines, over mutual TLS, one command per organisation.

Needs ``pip install 'confrere[flower]'``. Everything else in this library works without it. A party
imports :mod:`~confrere.federation.flower.answering`, a coordinator
:mod:`~confrere.federation.flower.carrying`: neither has the other's half of Flower in its process.
"""

from confrere.federation.flower.wire import FLOWER

__all__ = ["FLOWER"]
