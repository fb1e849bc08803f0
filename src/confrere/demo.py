"""A first look: one private model, its price before and after, and what is left of the budget."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from confrere import Ledger, PrivateLogisticRegression, PublicSchema
from confrere.data import Number

#: Declared by who knows the instrument, not read off the patients.
BOUNDS = {
    "mean radius": (6, 30),
    "mean texture": (8, 40),
    "mean smoothness": (0.05, 0.17),
    "mean compactness": (0.0, 0.35),
    "mean concavity": (0.0, 0.45),
    "mean concave points": (0.0, 0.21),
    "mean symmetry": (0.1, 0.31),
    "mean fractal dimension": (0.045, 0.1),
}
EPSILON = 1.0


def main() -> None:
    """Fit one private model on scikit-learn's breast-cancer data and tell the whole story."""
    console = Console()
    frame = load_breast_cancer(as_frame=True)
    schema = PublicSchema(tuple(Number(name, bounds=bounds) for name, bounds in BOUNDS.items()))
    encoder = schema.encoder()
    X_train, X_test, y_train, y_test = train_test_split(
        frame.data[list(BOUNDS)], frame.target, test_size=0.3, random_state=0
    )

    ledger = Ledger()
    ledger.open_account("patients", epsilon=3.0)
    model = PrivateLogisticRegression(epsilon=EPSILON, ledger=ledger, account="patients")

    console.rule("[bold]confrere: a private logistic regression[/]")
    console.print(
        f"{len(X_train)} patients, {len(BOUNDS)} measurements with declared bounds. "
        "Nothing about the data is learned for free: not their scale, not their labels."
    )
    price = model.price(*X_train.shape)
    console.print(f"\n[bold]Price[/] of one fit: {price}")
    console.print(f"Left on the account before: epsilon {ledger.left('patients'):g}")
    model.fit(encoder.transform(X_train), y_train)
    console.print(f"Left on the account after:  epsilon {ledger.left('patients'):g}")
    console.print(f"Receipt: row {model.receipt_.row}, {model.receipt_.hash[:16]}…\n")

    open_model = LogisticRegression().fit(encoder.transform(X_train), y_train)
    quality = Table(title="Test AUC, 171 patients not used for learning")
    quality.add_column("model")
    quality.add_column("AUC", justify="right")
    for name, fitted in (("private", model), ("not private", open_model)):
        scores = fitted.decision_function(encoder.transform(X_test))
        quality.add_row(name, f"{roc_auc_score(y_test, scores):.3f}")
    console.print(quality)

    book = Table(title="Ledger")
    for column in ("row", "account", "purpose", "epsilon", "state"):
        book.add_column(column)
    for entry in ledger.entries():
        book.add_row(
            str(entry.row),
            entry.account,
            entry.purpose,
            f"{entry.guarantee.epsilon:g}",
            entry.state,
        )
    console.print(book)
    console.print(f"{ledger.verify()} rows verified: the chain is whole.")


if __name__ == "__main__":
    main()
