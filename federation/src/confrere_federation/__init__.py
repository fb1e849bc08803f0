"""Studies between organisations: parties, engines, study files, kits, the desk, and commands."""
