"""Studies between organisations: parties, engines, study files, kits, dashboard, commands."""
