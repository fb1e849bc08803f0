"""Read a study file: the same bytes at every party, checked before anything else."""

from __future__ import annotations

from pathlib import Path

from sklearn.utils import get_tags

from confrere.catalogue import Method, find_method
from confrere.errors import InvalidParameter, SchemaError, StudyError
from confrere.guarantee import Neighbours, Unit
from confrere.release import read_public_key
from confrere.schema import PublicSchema
from confrere.study.parameters import check_parameters
from confrere.study.study import Encoding, Party, Promise, Study
from confrere.study.tables import Table, parse, read_bytes

SCHEMA = 1


def read_study(path: str | Path) -> Study:
    """Read and check a study file.

    Raises
    ------
    StudyError
        Naming the table and the key.
    SchemaError
        If the facts about a column are wrong.
    """
    return study_from_bytes(read_bytes(Path(path), "the study"))


def study_from_bytes(content: bytes) -> Study:
    """Read and check the content of a study file."""
    top = parse(content, "the study")
    if top.whole("schema") != SCHEMA:
        raise top.error("schema", f"must be {SCHEMA}; this is another version's study")
    about, method_table = top.table("study"), top.table("method")
    study_id, title = about.identifier("id"), about.text("title")
    purpose = about.text("purpose")
    mode = about.choice("mode", ("private", "simulation"), "private")
    about.done()
    try:
        method = find_method(method_table.text("name"))
    except InvalidParameter as error:
        raise method_table.error("name", str(error).rstrip(".")) from None
    if method.shape == "as-is":
        raise method_table.error("name", "learns nothing: use confrere predict with the release")
    if method.shape == "votes":
        raise method_table.error("name", "needs auxiliary rows: use MultipartyClassifier in Python")
    schema = _schema(top.table("data"), method)
    encoding = _encoding(top.table("encoding", required=False), schema, method)
    parties = _parties(top.tables("party"), method)
    federation = top.table("federation", required=False)
    random = top.table("random", required=False)
    study = Study(
        id=study_id,
        title=title,
        purpose=purpose,
        mode=mode,
        promise=_promise(top.table("privacy"), len(parties)),
        schema=schema,
        encoding=encoding,
        method=method,
        epsilon=method_table.number("epsilon"),
        parameters=method_table.rest(),
        parties=parties,
        engine=federation.choice("engine", ("local", "flower"), "local"),
        quorum=federation.number("quorum", 1.0),
        split_seed=random.whole("split_seed", 0, least=0),
        noise_seed=random.whole("noise_seed", None, least=0),
        content=content,
    )
    for table in (federation, random, top):
        table.done()
    if study.quorum > 1:
        raise federation.error("quorum", "must be a share: above 0 and at most 1")
    if study.engine == "flower" and method.shape != "together":
        raise federation.error("engine", f"'flower' is for methods that ask all; {method.name} is")
    if study.noise_seed is not None and not study.simulated:
        raise random.error("noise_seed", "needs study.mode = 'simulation': seeds protect nobody")
    check_parameters(study)
    return study


def _promise(table: Table, n_parties: int) -> Promise:
    promise = Promise(
        protects=Unit(table.choice("protects", tuple(Unit))),
        relation=Neighbours(table.choice("relation", tuple(Neighbours))),
        unit=table.text("unit", Promise.unit),
        unit_column=table.text("unit_column", None),
        max_rows_per_unit=table.whole("max_rows_per_unit", 1),
        parties_per_unit=table.whole("parties_per_unit", 1),
    )
    table.done()
    if promise.parties_per_unit > n_parties:
        raise table.error("parties_per_unit", f"is more than the {n_parties} parties")
    return promise


def _schema(table: Table, method: Method) -> PublicSchema:
    try:
        schema = PublicSchema.from_dict(table.rest())
    except SchemaError as error:
        raise SchemaError(f"data: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"data: a fact is of the wrong kind ({type(error).__name__}).") from None
    if schema.outcome is None:
        raise table.error("label", "is missing: what is to be predicted")
    classes = schema.outcome.classes
    tags = get_tags(method.make())
    if classes is not None and len(classes) > 2 and not tags.classifier_tags.multi_class:
        raise table.error("label", f"{method.name} needs two sides: declare positive values")
    return schema


def _encoding(table: Table, schema: PublicSchema, method: Method) -> Encoding:
    rows = table.choice("rows", ("clip", "unit"), "unit")
    weighted = table.truth("weighted", schema.has_importances and method.weighted)
    table.done()
    if weighted and not schema.has_importances:
        raise table.error("weighted", "needs an importance for every feature")
    return Encoding(rows, weighted)


def _parties(tables: list[Table], method: Method) -> tuple[Party, ...]:
    parties = tuple(_party(table) for table in tables)
    names = [party.name for party in parties]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StudyError(f"party.name: {twice[0]!r} is there twice.")
    sources = [party for party in parties if party.role == "source"]
    if method.shape == "transfer" and not 0 < len(sources) < len(parties):
        raise StudyError(
            f"party.role: {method.name} needs a party with role = 'source' and one without."
        )
    return parties


def _party(table: Table) -> Party:
    cap = table.table("cap", required=False)
    party = Party(
        name=table.identifier("name"),
        dataset=table.identifier("dataset"),
        role=table.choice("role", ("source", "member"), "member"),
        cap=cap.number("epsilon", None),
        cap_delta=cap.number("delta", 0.0),
        key=table.text("key", None),
    )
    try:
        _ = None if party.key is None else read_public_key(party.key)
    except InvalidParameter:
        raise table.error("key", "must be a line 'ssh-ed25519 AAAA...'") from None
    if party.cap_delta >= 1:
        raise cap.error("delta", "must be below 1")
    cap.done()
    table.done()
    return party
