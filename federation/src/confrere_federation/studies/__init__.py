"""A study from its file: read, priced before any data are touched, and run over any engine."""

from confrere_federation.studies.study_file import Study, read_study

__all__ = ["Study", "read_study"]
