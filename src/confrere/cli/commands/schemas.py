"""schema: write one down, show, compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from confrere.assurance.inference import flags_of_one
from confrere.cli.app import Answer, ExitCode, Option, command, tell
from confrere.data.features import Feature, Label
from confrere.data.schema import PublicSchema, declared_column, missing_facts, plain_value
from confrere.data.tables import open_table
from confrere.errors import InvalidData, SchemaError
from confrere.extras import installed, research

_OUT = "A file instead of the screen."
_SOURCE = Option("A study or schema file, or a data set's (confrere-research).", metavar="SCHEMA")


@command("schema new")
def new(
    *,
    column: Annotated[
        list[str] | None,
        Option("For instance age=number:18..100; repeat it.", metavar="NAME=KIND:FACTS"),
    ] = None,
    header: Annotated[
        Path | None, "A table whose first line has the names; no row is read."
    ] = None,
    label: str | None = None,
    positive: list[str] | None = None,
    out: Annotated[Path | None, _OUT] = None,
) -> Answer:
    """Write the data tables of a study from what is known without data; asks for the rest.

    Facts come from instruments, forms and the literature. Of a table only its first line is read.
    """
    given = {feature.column: feature for feature in map(declared_column, column or ())}
    names = list(given) if header is None else _header(header)
    lacking = [name for name in given if name not in names]
    if lacking:
        raise typer.BadParameter(f"the table has no {lacking[0]}.", param_hint="'--column'")
    if not names:
        names = _ask_names()
    if label is None:
        label = _ask("Which column is to be predicted? (empty: none)", optional=True)
    if label and not positive:
        positive = [_ask(f"{label}: which value counts as positive?")]
    features = [given.get(name) or _ask_feature(name) for name in names if name != label]
    schema = PublicSchema(
        tuple(feature for feature in features if feature is not None),
        None if not label else _label(label, positive),
    )
    return _written(schema, out)


def _label(column: str, positive: list[str] | None) -> Label:
    return Label(column, positive=tuple(map(plain_value, positive or ())))


def _header(path: Path) -> list[str]:
    """Return the names in a table's first line; ask for them where it is a record."""
    try:
        return list(open_table(path).names)
    except InvalidData as error:
        if "does not look like names" not in str(error):
            raise
        tell(f"The first line of {path.name} does not look like names; none of it is taken.")
        return _ask_names()


def _ask_names() -> list[str]:
    typed = _ask("Names of the columns, with commas between them")
    return [name.strip() for name in typed.split(",") if name.strip()]


def _ask(question: str, *, optional: bool = False) -> str:
    """Return what is typed; nothing ends the command where something is needed."""
    try:
        typed = str(typer.prompt(question, default="", show_default=False, err=True)).strip()
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        typed = ""  # nobody is there to type
    if not typed and not optional:
        raise SchemaError("nothing was typed, and nothing was written.").hinting(
            "run it again, or give the facts as options: confrere schema new --help"
        )
    return typed


#: What is asked per kind.
_QUESTIONS = {
    "number": "smallest and largest meaningful value, LOW..HIGH",
    "flag": "what stands for yes and for no, YES|NO",
    "category": "all values, with | between them",
    "ordered": "all levels from low to high, with | between them",
}


def _ask_feature(name: str) -> Feature | None:
    """Ask for the kind and the facts of a column until they make sense."""
    while True:
        kind = _ask(f"{name}: number, flag, category, ordered or nothing", optional=True)
        if not kind:
            return None
        if kind not in _QUESTIONS:
            continue
        try:
            return declared_column(f"{name}={kind}:{_ask(f'{name}: {_QUESTIONS[kind]}')}")
        except SchemaError as error:
            tell(str(error))


def _written(schema: PublicSchema, out: Path | None) -> Answer:
    """Return the text of a schema, and say what it could still tell."""
    open_facts = missing_facts(schema)
    if open_facts:
        tell("Worth declaring, from the literature or by experts, most useful first:")
    tell(*(f"  {fact}" for fact in open_facts), *flags_of_one(schema.features))
    text = schema.to_toml()
    told = {
        "fingerprint": schema.fingerprint(),
        "missing_facts": [fact._asdict() for fact in open_facts],
    }
    if out is None:
        return Answer("", {"toml": text, **told}, text=text)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        why = "is there already" if out.exists() else f"cannot be made there ({error.strerror})"
        raise SchemaError(f"out: {out.name} {why}; choose another name.") from None
    return Answer(f"written to {out}: to be read by a person", {"out": out, **told})


@command("schema show")
def show(schema: Annotated[str, _SOURCE]) -> Answer:
    """Show what a schema declares, and the hash of all that has a meaning."""
    digest = (found := read_schema(schema)).fingerprint()
    tell(*flags_of_one(found.features))
    return Answer("", found.to_dict() | {"fingerprint": digest}, [found])


@command("schema diff")
def diff(first: Annotated[str, _SOURCE], second: Annotated[str, _SOURCE]) -> Answer:
    """Say what differs between two schemas; exit code 3 if anything does."""
    lines = read_schema(first).difference(read_schema(second))
    if not lines:
        return Answer("the schemas mean the same", {"differences": []})
    return Answer(
        f"{len(lines)} facts differ",
        {"differences": lines},
        text="\n".join(lines),
        exit_code=ExitCode.INVALID,
        error_code="SchemaMismatch",
    )


def read_schema(source: str) -> PublicSchema:
    if installed("confrere_research") and not Path(source).exists():
        packaged = research("packaged_schemas")
        if source in packaged.schema_names():
            found: PublicSchema = packaged.load_schema(source)
            return found
    if not Path(source).is_file():
        what = f"there is no schema or study {source!r} to be read."
        raise SchemaError(what).hinting("give the path of a study, or of a schema's file")
    try:
        return PublicSchema.from_toml(Path(source))
    except SchemaError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"a fact is of the wrong kind ({type(error).__name__}).") from None
