"""The commands, one file per thing that they are about."""
