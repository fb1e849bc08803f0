"""Learn a classifier together without giving away your people."""
