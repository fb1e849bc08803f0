"""Random sources and samplers: what mechanisms draw from."""
