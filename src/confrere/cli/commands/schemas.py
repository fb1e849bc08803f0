"""schema: draft one from a public table, show it, compare two."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, ExitCode, aside, command
from confrere.cli.views import listing
from confrere.errors import SchemaError
from confrere.extras import has_research, research
from confrere.schema import Label, PublicDataOnlyWarning, PublicSchema, draft_schema
from confrere.study import read_table

Source = Annotated[
    str,
    typer.Argument(
        metavar="SCHEMA",
        help="A study or schema file, or a data set's (confrere-research).",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    schema = typer.Typer(help="Draft, show and compare public schemas.")
    app.add_typer(schema, name="schema", no_args_is_help=True)
    command(schema, "draft")(draft)
    command(schema, "show")(show)
    command(schema, "fingerprint")(fingerprint)
    command(schema, "diff")(diff)


def draft(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A PUBLIC table: CSV.")],
    public: Annotated[
        bool, typer.Option("--this-table-is-public", help="Must be given: you confirm it.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="The label's column.")] = None,
    positive: Annotated[
        list[str] | None, typer.Option(help="A value that counts as positive.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="A column to leave out.")] = None,
    source: Annotated[str, typer.Option(help="Where the table comes from.")] = "",
    out: Annotated[Path | None, typer.Option(help="A file instead of the screen.")] = None,
) -> Answer:
    """Draft the data tables of a study from a table that everyone may see.

    Never from private data: bounds and means read off it would be a leak without a price.
    """
    if not public:
        raise typer.BadParameter(
            "a schema is drafted from public data only; give it to confirm that this table is.",
            param_hint="'--this-table-is-public'",
        )
    if (label is None) != (not positive):
        raise typer.BadParameter("--label and --positive go together.", param_hint="'--label'")
    frame = read_table(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicDataOnlyWarning)
        schema = draft_schema(
            frame,
            label=None if label is None else Label(label, positive=_values(frame, label, positive)),
            exclude=exclude or (),
            source=source,
            i_confirm_this_table_is_public=True,
        )
    aside().print("Drafted by looking at a table: right only if it is public.", style="yellow")
    text = schema.to_toml()
    if out is None:
        return Answer("", {"toml": text, "fingerprint": schema.fingerprint()}, text=text)
    out.write_text(text, encoding="utf-8")
    return Answer(
        f"drafted to {out}: to be read and corrected by a person",
        {"out": str(out), "fingerprint": schema.fingerprint()},
    )


def show(schema: Source) -> Answer:
    """Show what a schema declares."""
    found = _read(schema)
    columns = ("column", "kind", "encoded as", "importance", "sign", "facts")
    table = listing("Public facts", *columns)
    hidden = {"column", "kind", "importance", "sign"}
    for feature in found.features:
        facts = feature.to_dict()
        rest = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in hidden)
        table.add_row(
            facts["column"],
            facts["kind"],
            str(len(feature.names)),
            str(facts.get("importance", "")),
            str(facts.get("sign", "")),
            rest,
        )
    return Answer(f"fingerprint {found.fingerprint()}", found.to_dict(), [table])


def fingerprint(schema: Source) -> Answer:
    """Print the hash of all that has a meaning: to compare by telephone."""
    digest = _read(schema).fingerprint()
    return Answer(digest, {"fingerprint": digest})


def diff(first: Source, second: Source) -> Answer:
    """Say what differs between two schemas; exit code 3 if anything does."""
    lines = _read(first).difference(_read(second))
    if not lines:
        return Answer("the schemas mean the same", {"differences": []})
    return Answer(
        f"{len(lines)} facts differ",
        {"differences": lines},
        text="\n".join(lines),
        exit_code=ExitCode.INVALID,
        error_code="SchemaMismatch",
    )


def _read(source: str) -> PublicSchema:
    if has_research() and not Path(source).exists():
        packaged = research("packaged_schemas")
        if source in packaged.schema_names():
            found: PublicSchema = packaged.load_schema(source)
            return found
    try:
        return PublicSchema.from_toml(Path(source))
    except SchemaError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"a fact is of the wrong kind ({type(error).__name__}).") from None


def _values(frame: object, label: str, positive: list[str] | None) -> tuple[str | int, ...]:
    """Return the positive values, as numbers where the column holds numbers."""
    numeric = getattr(getattr(frame, label, None), "dtype", None)
    kind = getattr(numeric, "kind", "O")
    return tuple(int(v) if kind in "iuf" and v.lstrip("-").isdigit() else v for v in positive or ())
