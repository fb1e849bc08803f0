"""The public schemas of data sets that come with the package."""

from __future__ import annotations

from importlib.resources import files

from confrere.data.schema import PublicSchema
from confrere.errors import InvalidParameter


def schema_names() -> list[str]:
    """Return the names that :func:`load_schema` knows."""
    folder = files("confrere_research").joinpath("schemas")
    entries = [entry.name for entry in folder.iterdir()]
    return sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml"))


def load_schema(name: str) -> PublicSchema:
    """Return a schema that comes with the package, such as ``"brfss2022"``."""
    if name not in schema_names():
        raise InvalidParameter(f"name must be one of {', '.join(schema_names())}.")
    file = files("confrere_research").joinpath("schemas", f"{name}.toml")
    return PublicSchema.from_toml(file.read_text(encoding="utf-8"))
