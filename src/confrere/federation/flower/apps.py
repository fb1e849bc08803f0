"""What the app bundle names: the bundle itself ships no code beyond importing these."""

from confrere.federation.flower.coordinator_app import coordinator_app
from confrere.federation.flower.party_app import party_app

client_app = party_app()
server_app = coordinator_app()
