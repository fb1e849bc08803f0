"""schema: write one down, draft one from a public table, learn facts at a price, show, compare."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from confrere.cli.envelope import Answer, ExitCode, Option, command, tell
from confrere.cli.options import agreed_payer, existing_ledger
from confrere.data.fact_counts import FactCounts
from confrere.data.features import Feature, Label
from confrere.data.schema import (
    PublicDataOnlyWarning,
    PublicSchema,
    declared_column,
    draft_schema,
    feature_of,
    missing_facts,
    plain_value,
)
from confrere.data.tables import open_table
from confrere.errors import SchemaError
from confrere.extras import has_research, research
from confrere.kernel.guarantee import Unit, check_epsilon, check_relation
from confrere.learned_facts import FactsPlan
from confrere.views import Word

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
    names = list(given) if header is None else list(open_table(header).names)
    lacking = [name for name in given if name not in names]
    if lacking:
        raise typer.BadParameter(f"the table has no {lacking[0]}.", param_hint="'--column'")
    if not names:
        typed = _ask("Names of the columns, with commas between them")
        names = [name.strip() for name in typed.split(",") if name.strip()]
    if label is None:
        label = _ask("Which column is to be predicted? (empty: none)", default="")
    if label and not positive:
        positive = [_ask(f"{label}: which value counts as positive?")]
    features = [given.get(name) or _ask_feature(name) for name in names if name != label]
    schema = PublicSchema(
        tuple(feature for feature in features if feature is not None),
        None if not label else _label(label, positive),
    )
    return _written(schema, out, "written")


@command("schema draft")
def draft(
    table: Annotated[Path, Option("A PUBLIC table: CSV.", metavar="TABLE")],
    *,
    public: Annotated[
        bool, Option("Must be given: you confirm it.", "--this-table-is-public")
    ] = False,
    label: str | None = None,
    positive: list[str] | None = None,
    exclude: Annotated[list[str] | None, "A column to leave out."] = None,
    category: Annotated[list[str] | None, "A column of numbers that are codes: a category."] = None,
    max_categories: Annotated[
        int, Option("Encoded columns of a category; what is rarer becomes other.", min=3)
    ] = 20,
    source: Annotated[str, "Where the table comes from."] = "",
    out: Annotated[Path | None, _OUT] = None,
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
    frame = open_table(table).whole()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicDataOnlyWarning)
        schema = draft_schema(
            frame,
            label=None if label is None else _label(label, positive),
            exclude=exclude or (),
            categories=category or (),
            max_categories=max_categories,
            source=source,
            i_confirm_this_table_is_public=True,
        )
    tell(Word("Drafted by looking at a table: right only if it is public."))
    return _written(schema, out, "drafted")


@command("schema learn")
def learn(
    table: Annotated[Path, Option("PRIVATE records: CSV.", metavar="TABLE")],
    *,
    schema: Annotated[str, "The schema to complete: bounds and values."],
    epsilon: Annotated[float, "The price of all facts together, per record."],
    ledger: Annotated[Path, Option("The ledger of the table's owner.", envvar="CONFRERE_LEDGER")],
    account: str | None = None,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"], "Which change is hidden: replace-one or add-remove."
    ] = "replace-one",
    party: Annotated[
        str | None, "The column that says whose record it is: hide whole parties."
    ] = None,
    out: Annotated[Path | None, _OUT] = None,
    yes: bool = False,
) -> Answer:
    """Learn facts that a schema lacks from private records: counted with noise, and paid for.

    Means and deviations within the declared bounds, shares of values, missing cells, the base
    rate. The schema carries the receipt, and every release that is made with it says the price.
    """
    found = _read(schema)
    unit = Unit.RECORD if party is None else Unit.PARTY
    counts, relation = FactCounts(found), check_relation(neighbours)
    price = FactsPlan(counts, check_epsilon(epsilon), relation, unit)
    book = existing_ledger(ledger)
    _refuse_taken(out)
    outcome = () if found.outcome is None else (found.outcome.column,)
    named = () if party is None else (party,)
    frame = open_table(table).whole([*found.columns, *outcome, *named])
    price.summed(frame, party)  # what is wrong with the table is said before the price is
    told = {
        "pays for": f"{price.counts.size} sums of {', '.join(price.counts.names)}",
        "from then on": "in the total of every release that is made with this schema",
    }
    payer = agreed_payer(book, account, price.guarantee(), told, what="facts", yes=yes)
    learned = found.learn(
        frame,
        epsilon=epsilon,
        neighbours=neighbours,
        party=party,
        ledger=book,
        account=payer,
    )
    paid = learned.paid[-1]
    tell(f"learned {paid}")
    kept = sorted(set(price.counts.names) - set(paid.learned))
    if kept:
        tell(f"too noisy at this price, left as declared: {', '.join(kept)}")
    then = "what was learned is not to be changed, the ledger names it"
    return _written(learned, out, "written", then, paid=paid.to_dict())


def _label(column: str, positive: list[str] | None) -> Label:
    return Label(column, positive=tuple(map(plain_value, positive or ())))


def _ask(question: str, default: str | None = None) -> str:
    answer: str = typer.prompt(question, default=default, show_default=False, err=True)
    return answer.strip()


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
        kind = _ask(f"{name}: number, flag, category, ordered or nothing (left out)", default="")
        if not kind:
            return None
        if kind not in _QUESTIONS:
            continue
        try:
            return feature_of(name, kind, _ask(f"{name}: {_QUESTIONS[kind]}"))
        except SchemaError as error:
            tell(str(error))


def _refuse_taken(out: Path | None) -> None:
    """Refuse a file that is there, or cannot be made, before anything is spent on what is in it."""
    if out is None:
        return
    if out.exists():
        raise SchemaError(f"out: {out.name} is there already; choose another name.")
    if not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise SchemaError(f"out: {out.name} cannot be made there; choose a folder of yours.")


def _written(
    schema: PublicSchema,
    out: Path | None,
    done: str,
    then: str = "to be read and corrected by a person",
    **more: Any,
) -> Answer:
    """Return the text of a schema, and say what it could still tell."""
    open_facts = missing_facts(schema)
    if open_facts:
        tell("Worth declaring, from the literature or by experts, most useful first:")
    tell(*(f"  {fact}" for fact in open_facts))
    text = schema.to_toml()
    told = {
        "fingerprint": schema.fingerprint(),
        "missing_facts": [fact._asdict() for fact in open_facts],
        **more,
    }
    on_screen = Answer("", {"toml": text, **told}, text=text)
    if out is None:
        return on_screen
    if "paid" not in more:
        _refuse_taken(out)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        # What was paid for is not lost, whatever became of the folder meanwhile.
        tell(f"out: {out.name} cannot be written ({error.strerror}); here it is instead.")
        return on_screen
    return Answer(f"{done} to {out}: {then}", {"out": str(out), **told})


@command("schema show")
def show(schema: Annotated[str, _SOURCE]) -> Answer:
    """Show what a schema declares."""
    found = _read(schema)
    return Answer("", found.to_dict(), [found])


@command("schema fingerprint")
def fingerprint(schema: Annotated[str, _SOURCE]) -> Answer:
    """Print the hash of all that has a meaning: to compare by telephone."""
    digest = _read(schema).fingerprint()
    return Answer(digest, {"fingerprint": digest})


@command("schema diff")
def diff(first: Annotated[str, _SOURCE], second: Annotated[str, _SOURCE]) -> Answer:
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
