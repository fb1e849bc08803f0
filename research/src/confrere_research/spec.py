"""What is reproduced: one written specification per figure or table."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from confrere.errors import InvalidParameter

Variant = Literal["as published", "corrected", "recommended", "ceiling"]
VARIANTS: tuple[str, ...] = get_args(Variant)


@dataclass(frozen=True)
class Method:
    """One line of a figure: what to run, and with which public settings.

    Attributes
    ----------
    name : str
        As in the paper.
    variant : {"as published", "corrected", "recommended", "ceiling"}
        The paper's formulas without a guarantee; the same algorithm with one; what this library
        recommends at the same epsilon; references without noise.
    run : str
        Name in :data:`confrere_research.methods.METHODS`.
    options : mapping
        Settings of the method.
    data : mapping
        What differs from the item's own settings of the data.
    epsilons : tuple of float, optional
        Instead of the item's own.
    settings : tuple of float, optional
        Instead of the item's own; empty if the axis means nothing here.
    """

    name: str
    variant: Variant
    run: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    epsilons: tuple[float, ...] | None = None
    settings: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Axis:
    """A second thing that varies: a setting of the methods or of the data."""

    name: str
    values: tuple[float, ...]
    of: Literal["options", "data"] = "options"


@dataclass(frozen=True)
class Cell:
    """The smallest piece of work: one method at one point, once.

    ``epsilon`` is None without privacy; ``setting`` is the value on the second axis, if any.
    """

    item: str
    method: str
    variant: str
    epsilon: float | None
    setting: float | None
    repeat: int

    @property
    def seed(self) -> int:
        """Seed of the noise, the same for every variant of a method."""
        return derived_seed(self.item, self.method, self.epsilon, self.repeat)


@dataclass(frozen=True)
class Published:
    """Numbers of the paper for one method: per point of the figure, or per branch."""

    method: str
    values: tuple[float, ...]
    sd: tuple[float, ...] = ()


@dataclass(frozen=True)
class Spec:
    """One item: data, methods, what varies, and what the paper says about it."""

    item: str
    title: str
    source: str
    problem: str
    metric: str
    higher_is_better: bool
    repeats: int
    quick_repeats: int
    epsilons: tuple[float, ...]
    methods: tuple[Method, ...]
    data: Mapping[str, Any]
    axis: Axis | None
    published: tuple[Published, ...]
    published_at: Literal["epsilon", "branch"]
    published_epsilon: float | None
    comparable: bool
    claims: tuple[Mapping[str, Any], ...]
    external_data: bool
    simulated_data: bool
    note: str

    def cells(self, *, quick: bool = False) -> Iterator[Cell]:
        """Yield the cells, one repeat after the other; the quick form has fewer repeats."""
        for repeat in range(self.quick_repeats if quick else self.repeats):
            for method in self.methods:
                for setting in self._settings(method):
                    for epsilon in self._epsilons(method):
                        yield Cell(self.item, method.name, method.variant, epsilon, setting, repeat)

    def method_of(self, cell: Cell) -> Method:
        """Return the method that a cell runs."""
        return self._by_name[cell.method, cell.variant]

    def key(self, cell: Cell) -> str:
        """Return the fingerprint of everything that decides a cell's result."""
        method = self.method_of(cell)
        facts = [
            *(self.problem, self.data, self.axis.name if self.axis else None),
            *(method.run, method.options, method.data),
            *(cell.item, cell.method, cell.variant, cell.epsilon, cell.setting, cell.repeat),
        ]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def data_of(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell's data."""
        data = {**self.data, **self.method_of(cell).data}
        if self.axis is not None and self.axis.of == "data" and cell.setting is not None:
            data[self.axis.name] = cell.setting
        return data

    def options_of(self, cell: Cell) -> dict[str, Any]:
        """Return the settings of a cell's method."""
        options = dict(self.method_of(cell).options)
        if self.axis is not None and self.axis.of == "options" and cell.setting is not None:
            options[self.axis.name] = cell.setting
        return options

    @property
    def _by_name(self) -> dict[tuple[str, str], Method]:
        return {(method.name, method.variant): method for method in self.methods}

    def _settings(self, method: Method) -> tuple[float | None, ...]:
        if method.settings is not None:
            return method.settings or (None,)
        return self.axis.values if self.axis else (None,)

    def _epsilons(self, method: Method) -> tuple[float | None, ...]:
        if method.epsilons is not None:
            return method.epsilons or (None,)
        return (None,) if method.variant == "ceiling" else self.epsilons


def derived_seed(*parts: object) -> int:
    """Return a seed that depends on every part and on nothing else."""
    text = "\0".join(repr(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


@cache
def load_specs() -> dict[str, Spec]:
    """Return every packaged specification by its item, in the order of the papers."""
    folder = files("confrere_research") / "specs"
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".toml")),
        key=lambda path: ("STMC".index(path.name[0]), path.name.removesuffix(".toml")),
    )
    specs = (read_spec(tomllib.loads(path.read_text(encoding="utf-8"))) for path in paths)
    return {spec.item: spec for spec in specs}


def load_spec(item: str) -> Spec:
    """Return one specification, or say which there are."""
    specs = load_specs()
    if item not in specs:
        raise InvalidParameter(f"item must be one of {', '.join(specs)}.")
    return specs[item]


def read_spec(facts: Mapping[str, Any]) -> Spec:
    """Read the tables of a specification file."""
    axis = facts.get("axis")
    published = facts.get("published", {})
    spec = Spec(
        item=facts["item"],
        title=facts["title"],
        source=facts["source"],
        problem=facts["problem"],
        metric=facts.get("metric", "auc"),
        higher_is_better=facts.get("higher_is_better", True),
        repeats=facts["repeats"],
        quick_repeats=facts["quick_repeats"],
        epsilons=tuple(facts["epsilons"]),
        methods=tuple(_method(entry) for entry in facts["methods"]),
        data=facts.get("data", {}),
        axis=Axis(axis["name"], tuple(axis["values"]), axis.get("of", "options")) if axis else None,
        published=tuple(
            Published(name, tuple(entry["values"]), tuple(entry.get("sd", ())))
            for name, entry in published.get("methods", {}).items()
        ),
        published_at=published.get("at", "epsilon"),
        published_epsilon=published.get("epsilon"),
        comparable=published.get("comparable", True),
        claims=tuple(facts.get("claims", ())),
        external_data=facts.get("external_data", True),
        simulated_data=facts.get("simulated_data", False),
        note=facts.get("note", ""),
    )
    names = [(method.name, method.variant) for method in spec.methods]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"{spec.item}: a method and variant is listed twice.")
    return spec


def _method(entry: Mapping[str, Any]) -> Method:
    if entry["variant"] not in VARIANTS:
        raise InvalidParameter(f"variant must be one of {', '.join(VARIANTS)}.")
    return Method(
        name=entry["name"],
        variant=entry["variant"],
        run=entry["run"],
        options=entry.get("options", {}),
        data=entry.get("data", {}),
        epsilons=_optional_tuple(entry.get("epsilons")),
        settings=_optional_tuple(entry.get("settings")),
    )


def _optional_tuple(values: list[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)
