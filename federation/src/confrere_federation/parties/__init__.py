"""The boundary between organisations: who asks, who answers, and what passes between them."""

from confrere_federation.parties.federation import LocalFederation
from confrere_federation.parties.party import LocalParty, PartyAccounts, Policy, serve

__all__ = ["LocalFederation", "LocalParty", "PartyAccounts", "Policy", "serve"]
