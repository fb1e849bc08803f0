"""Sums that nobody sees into: quality beside an average of releases, and what they cost.

Quality: area under the curve. The hospitals are a main one and sixteen branches (states of BRFSS
2022), the mean over branches and splits; Bank Marketing and Credit Default are dealt to 3 or 30
parties. Rules for ridges were set on other states, on simulated hospitals, on BRFSS 2015 and on
phishing pages. Needs the data in the folder that ``CONFRERE_DATA`` names.

Costs: CPU seconds of one core, the least of a few rounds.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from rich.console import Console
from scipy import special
from sklearn.metrics import roc_auc_score

from benchmarks.measured import fill, markdown, write_record
from benchmarks.tables import LOADERS
from confrere import CollaborativeClassifier, MultipartyClassifier
from confrere.arrays import Floats
from confrere.estimators import designed
from confrere.kernel.measurements import SecureSum
from confrere.methods.asking import colluders_of
from confrere.planning import choose
from confrere.simulation import SeededSource
from confrere_federation.parties.answers import Key
from confrere_federation.parties.masks import Masking, SumContext
from confrere_research.packaged_schemas import load_schema
from confrere_research.problems.hospitals import states_as_hospitals
from confrere_research.problems.shapes import encoded_rows

EPSILONS = (0.1, 0.5, 1.0)
DELTA = 1e-6
WAYS: dict[str, dict[str, Any]] = {
    "average": {"method": "average"},
    "one message": {"method": "sums"},
    "rounds": {"method": "sums", "delta": DELTA},
}
#: Splits, and draws of the noise in each.
HOSPITALS, TABLES = (10, 2), (5, 1)
#: What experts would guess of a linear model without privacy, for the choice.
GUESSED = {"17 hospitals": 0.825, "Bank": 0.907, "Credit": 0.745}


@dataclass(frozen=True)
class Dealt:
    """Rows of all parties, whose they are, public facts, and tables to test on."""

    X: Floats
    y: Floats
    party: NDArray[np.intp]
    base_rate: float
    mean_squares: Floats
    tests: list[tuple[Floats, Floats]]


def main() -> None:
    record = {"quality": list(quality()), "costs": costs(), "many": many_parties()}
    write_record("sums", record)
    for name, table in (("sums", quality_table), ("sum-costs", cost_table)):
        fill("sums.md", name, table(record))
        Console().print(table(record), markup=False)


def quality() -> Iterator[dict[str, Any]]:
    """Yield, per problem and way, the areas under the curve of all splits and draws."""
    problems: dict[str, tuple[Callable[[int], Dealt], tuple[int, int]]] = {
        "17 hospitals": (hospitals, HOSPITALS)
    }
    for table, rate in (("Bank Marketing", 0.12), ("Credit Default", 0.22)):
        for parties in (3, 30):
            name = f"{table.split()[0]}, {parties} parties"
            problems[name] = (lambda s, t=table, m=parties, r=rate: customers(t, m, r, s), TABLES)
    for name, (make, (splits, draws)) in problems.items():
        found: dict[str, dict[str, list[float]]] = {
            way: {f"{e:g}": [] for e in EPSILONS} for way in WAYS
        }
        chosen: dict[str, dict[str, str]] = {}
        for split in range(splits):
            data = make(split)
            for epsilon in EPSILONS:
                for way, settings in WAYS.items():
                    areas = [
                        area(data, epsilon, 100 * split + draw, settings) for draw in range(draws)
                    ]
                    found[way][f"{epsilon:g}"].append(round(float(np.mean(areas)), 5))
                chosen[f"{epsilon:g}"] = choices(name, data, epsilon)
        yield {"problem": name, "found": found, "chosen": chosen}


def hospitals(split: int) -> Dealt:
    """Return a main hospital and sixteen branches, columns weighted by importance."""
    found = states_as_hospitals({"encoding": "weighted"}, split)
    centres = [found.source, *(target.train for target in found.targets)]
    return Dealt(
        np.vstack([centre.X for centre in centres]),
        np.concatenate([centre.y for centre in centres]),
        np.repeat(np.arange(len(centres)), [len(centre) for centre in centres]),
        float(special.expit(found.base_log_odds)),
        load_schema("brfss2022").encoder(weighted=True).mean_squares(),
        [(target.test.X, target.test.y) for target in found.targets],
    )


def customers(table: str, parties: int, base_rate: float, split: int) -> Dealt:
    """Return a table's rows at three parties (half, three eighths, an eighth) or at equal ones."""
    loaded = LOADERS[table]()
    X, _ = encoded_rows(loaded.train.X, loaded.schema, "public")
    order = np.random.default_rng(split).permutation(len(X))
    learned, tested = np.split(order, [round(0.8 * len(X))])
    shares = np.array([4, 3, 1]) / 8 if parties == 3 else np.full(parties, 1 / parties)
    ends = np.rint(np.cumsum(shares) * len(learned)).astype(np.intp)
    y = loaded.train.y
    return Dealt(
        X[learned],
        y[learned],
        np.searchsorted(ends, np.arange(len(learned)), side="right"),
        base_rate,
        loaded.schema.encoder().mean_squares(),
        [(X[tested], y[tested])],
    )


def area(data: Dealt, epsilon: float, seed: int, settings: dict[str, Any]) -> float:
    """Return the mean area under the curve over the tables to test on."""
    model = designed(
        CollaborativeClassifier(epsilon=epsilon, classes=[0, 1], random_state=seed, **settings),
        prior_intercept=float(special.logit(data.base_rate)),
    ).fit(data.X, data.y, party=data.party)
    return float(np.mean([roc_auc_score(y, model.decision_function(X)) for X, y in data.tests]))


def choices(name: str, data: Dealt, epsilon: float) -> dict[str, str]:
    """Return what planning would choose."""
    guess, sizes = GUESSED[name.split(",")[0]], np.bincount(data.party).tolist()
    made = choose(
        n_samples=sizes, n_features=data.X.shape[1], epsilon=epsilon, auc=guess, trust="1 of 2"
    )
    return {"pure": "one message" if made.best.name == "sums" else "average"}


def quality_table(record: dict[str, Any]) -> str:
    """Return the documentation's table."""
    rows = []
    for one in record["quality"]:
        cells = [
            " ".join(f"{np.mean(v):.3f}".lstrip("0") for v in one["found"][way].values())
            for way in WAYS
        ]
        errors = [
            max(np.std(v, ddof=1) / math.sqrt(len(v)) for v in one["found"][way].values())
            for way in WAYS
        ]
        pure = ", ".join(dict.fromkeys(c["pure"] for c in one["chosen"].values()))
        rows.append([one["problem"], *cells, f"{max(errors):.3f}".lstrip("0"), pure])
    head = ["ε = .1 .5 1", "average", "one message, pure", "rounds, δ = 10⁻⁶"]
    return markdown([*head, "standard error, at most", "planning chooses, pure"], rows)


def costs() -> list[dict[str, Any]]:
    """Return what one sum costs a party, beside the transport and its own computation."""
    found = []
    for parties, size in ((17, 50), (200, 5000)):
        mechanism = SecureSum(
            epsilon=1.0,
            size=size,
            sensitivity=1.0,
            n_parties=parties,
            fewest=parties,
            colluding=colluders_of("auto", parties, 1.0),
            largest=100.0,
        )
        digest = hashlib.sha256(b"benchmark").hexdigest()
        context = SumContext(study=digest, question=digest, key=Key("r", "sum", 0))
        own = {f"p{k}": Ed25519PrivateKey.generate() for k in range(parties)}
        public = {name: key.public_key() for name, key in own.items()}
        made = {name: Masking(name, key, public) for name, key in own.items()}
        roster = {name: one.ready(context) for name, one in made.items()}
        times: dict[str, list[float]] = {"keys": [], "noise": [], "masks": []}
        for name in list(own)[:5]:
            began = time.process_time()
            Masking(name, own[name], public).ready(context)
            masks = made[name].agree(context, roster, fewest=parties, most=parties)
            times["keys"].append(time.process_time() - began)
            began = time.process_time()
            (upload,) = mechanism.share.sample(np.zeros(size), SeededSource(0))
            times["noise"].append(time.process_time() - began)
            began = time.process_time()
            masks.hide(upload)
            times["masks"].append(time.process_time() - began)
        told = sum(len(name) + 2 * len(word) for name, word in roster.items())
        least = {name: round(min(values), 5) for name, values in times.items()}
        found.append({"parties": parties, "size": size, **least, "down": told, "up": 8 * size})
    return found


def many_parties() -> list[dict[str, Any]]:
    """Return the time of 20,000 simulated parties, with shares over with a coordinator."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 50)) / math.sqrt(50)
    y = (X[:, 0] + 0.1 * rng.normal(size=len(X)) > 0).astype(int)
    party, auxiliary = np.repeat(np.arange(20_000), 10), X[:2000]
    found = []
    for method in ("statistic", "weights"):
        taken = {}
        for trust in ("coordinator", "sum"):
            model = MultipartyClassifier(method=method, trust=trust, classes=[0, 1], random_state=0)
            least = math.inf
            for _ in range(2):
                began = time.process_time()
                model.fit(X, y, party=party, auxiliary=auxiliary)
                least = min(least, time.process_time() - began)
            taken[trust] = round(least, 3)
        found.append({"method": method, **taken})
    return found


def cost_table(record: dict[str, Any]) -> str:
    """Return the documentation's table."""
    rows = [
        [
            f"{one['parties']} parties, {one['size']:,} weights",
            f"{one['keys'] + one['noise'] + one['masks']:.3f} s",
            f"{one['keys']:.4f}, {one['noise']:.4f}, {one['masks']:.4f}",
            f"{one['down'] / 1000:.1f} kB",
            f"{one['up'] / 1000:.1f} kB",
        ]
        for one in record["costs"]
    ]
    head = ["", "a party's CPU for one sum", "of it keys, noise, masks", "message to it", "from it"]
    ratios = ", ".join(
        f"{one['sum'] / one['coordinator']:.1f} ({one['method']})" for one in record["many"]
    )
    told = (
        "In one process 20,000 parties with 50 columns take this many times as long as with a "
        f"trusted coordinator: {ratios}."
    )
    return f"{markdown(head, rows)}\n\n{told}"
