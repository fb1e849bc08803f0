"""A study from its file: read, priced before any data are touched, and run over any engine."""
