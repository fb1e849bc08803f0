"""UCI 240, Human Activity Recognition Using Smartphones, from the raw inertial signals."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from confrere_research.loaders.dataset import DataSet, DenseRows, LabelledRows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_arrays, unzip

PAGE = "https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones"
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
ARRAYS = ("X_train", "y_train", "subject_train", "X_test", "y_test", "subject_test")
CHANNELS = tuple(
    f"{sensor}_{axis}" for sensor in ("total_acc", "body_acc", "body_gyro") for axis in "xyz"
)
HALF = 64


def _half_windows(content: bytes) -> bytes:
    """Keep the second half of every window: the first half is the one before's second."""
    arrays: dict[str, NDArray[np.generic]] = {}
    inner = unzip("UCI HAR Dataset.zip")(content)
    with zipfile.ZipFile(io.BytesIO(inner)) as archive:

        def table(part: str, name: str) -> NDArray[np.float64]:
            path = f"UCI HAR Dataset/{part}/{name}_{part}.txt"
            return np.loadtxt(io.BytesIO(archive.read(path)))

        for part in ("train", "test"):
            signals = [table(part, f"Inertial Signals/{name}")[:, HALF:] for name in CHANNELS]
            arrays[f"X_{part}"] = np.stack(signals, axis=2).astype(np.float32)
            arrays[f"y_{part}"] = table(part, "y").astype(np.int8)
            arrays[f"subject_{part}"] = table(part, "subject").astype(np.int8)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()


FILE = PublishedFile(
    "uci_har_inertial",
    "uci_har_inertial_halfwindows.npz",
    "b7b5463c9f4e13ee7f7e4f817725ba2b7ad3de49cca286f093b52bee8f42fbf3",
    page=PAGE,
    url=(
        "https://archive.ics.uci.edu/static/public/240/"
        "human+activity+recognition+using+smartphones.zip"
    ),
    convert=_half_windows,
)


def load_har(data_dir: DataDir = None) -> DataSet[DenseRows]:
    """Load Human Activity Recognition: features computed from 1.28 seconds of raw signals.

    Each row is a function of its own window alone and is scaled by declared bounds, so nothing
    is learned across rows. These are not the 561 features that the data set comes with.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        7,352 and 2,947 windows, values in [-1, 1], six activities; ``groups`` holds the person
        (1 to 30; nobody is in both parts).
    """
    arrays = read_arrays(FILE, data_dir, ARRAYS)

    def rows(part: str) -> tuple[LabelledRows[DenseRows], tuple[str, ...]]:
        X, names = features(arrays[f"X_{part}"])
        labels = arrays[f"y_{part}"].astype(np.int64) - 1
        return LabelledRows(X, labels, arrays[f"subject_{part}"].astype(np.int64)), names

    train, names = rows("train")
    test, _ = rows("test")
    return DataSet(
        name="har",
        train=train,
        test=test,
        feature_names=names,
        classes=ACTIVITIES,
        licence="CC BY 4.0",
        source=PAGE,
        description=(
            "A telephone on the waist of thirty people; time- and frequency-domain features of "
            "the second half of every published window; the official split by person."
        ),
    )


Signals = NDArray[np.float64]
Column = tuple[str, NDArray[np.float64]]

RATE = 50.0
AR_ORDER = 4
# Slices of the discrete spectrum of 64 samples; one step is 0.78 Hz.
BANDS = ((1, 2), (2, 3), (3, 4), (4, 5), (5, 7), (7, 9), (9, 12), (12, 16), (16, 24), (24, 33))
# Per signal: the size that counts as small, and the bound at which sizes are clipped.
SCALES = {
    "gravity": (0.01, 1.5),
    "body": (0.002, 2.0),
    "upright": (0.002, 2.0),
    "jerk": (0.05, 80.0),
    "gyro": (0.005, 8.0),
    "gyro jerk": (0.1, 250.0),
}
_TINY = 1e-12


def features(windows: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return one row per window, and the names of the columns."""
    names, columns = zip(*_columns(windows.astype(np.float64)), strict=True)
    return np.clip(np.column_stack(columns), -1, 1).astype(np.float32), tuple(names)


def _columns(windows: Signals) -> Iterator[Column]:
    total, body, gyro = windows[..., :3], windows[..., 3:6], windows[..., 6:]
    gravity = total - body
    down = _unit(gravity.mean(axis=1, keepdims=True))
    vertical = np.sum(body * down, axis=2, keepdims=True)
    signals = {
        "gravity": gravity,
        "body": body,
        "jerk": np.diff(body, axis=1) * RATE,
        "gyro": gyro,
        "gyro jerk": np.diff(gyro, axis=1) * RATE,
    }
    for name, triple in signals.items():
        axes = ("x", "y", "z", "magnitude")
        with_size = np.concatenate([triple, np.linalg.norm(triple, axis=2, keepdims=True)], axis=2)
        yield from _shape(name, axes, with_size)
        yield from _together(name, triple)
        if name != "gravity":
            yield from _spectrum(name, axes, with_size)
    sideways = np.linalg.norm(body - vertical * down, axis=2, keepdims=True)
    upright = np.concatenate([vertical, sideways], axis=2)
    yield from _shape("upright", ("vertical", "horizontal"), upright)
    yield from _spectrum("upright", ("vertical", "horizontal"), upright)
    yield from _directions(down[:, 0], signals)


def _shape(name: str, axes: tuple[str, ...], x: Signals) -> Iterator[Column]:
    """Where a signal lies, how far it spreads, and how each sample follows from the last ones."""
    ordered = np.sort(x, axis=1)
    low, middle, high = np.quantile(ordered, [0.25, 0.5, 0.75], axis=1)
    centred = x - x.mean(axis=1, keepdims=True)
    share = np.abs(x) / (np.abs(x).sum(axis=1, keepdims=True) + _TINY)
    tables = {
        "mean": _signed(name, x.mean(axis=1)),
        "min": _signed(name, ordered[:, 0]),
        "max": _signed(name, ordered[:, -1]),
        "median": _signed(name, middle),
        "sd": _size(name, x.std(axis=1)),
        "mad": _size(name, np.median(np.abs(x - middle[:, None]), axis=1)),
        "iqr": _size(name, high - low),
        "rms": _size(name, np.sqrt(np.mean(x**2, axis=1))),
        "entropy": _entropy(share),
        "skewness": _moment(centred, 3) / 3,
        "kurtosis": np.log1p(_moment(centred, 4)) / 2 - 1,
        "crossings": 2 * np.mean(centred[:, 1:] * centred[:, :-1] < 0, axis=1) - 1,
    }
    for order, coefficient in enumerate(_autoregression(centred), start=1):
        tables[f"ar{order}"] = coefficient / 3
    for what, table in tables.items():
        for axis, column in zip(axes, table.T, strict=True):
            yield f"{name} {axis} {what}", column


def _spectrum(name: str, axes: tuple[str, ...], x: Signals) -> Iterator[Column]:
    """How much of a signal swings how fast."""
    n_time = x.shape[1]
    taper = np.hanning(n_time)[None, :, None]
    power = np.abs(np.fft.rfft((x - x.mean(axis=1, keepdims=True)) * taper, axis=1)) ** 2
    share = power[:, 1:] / (power[:, 1:].sum(axis=1, keepdims=True) + _TINY)
    place = np.linspace(0, 1, share.shape[1])[None, :, None]
    mean = np.sum(share * place, axis=1)
    tables = {
        f"band{first}-{last}": _size(name, np.sqrt(power[:, first:last].sum(axis=1)) / n_time)
        for first, last in BANDS
    }
    tables["mean frequency"] = 2 * mean - 1
    tables["peak frequency"] = 2 * np.argmax(share, axis=1) / (share.shape[1] - 1) - 1
    tables["frequency spread"] = (
        4 * np.sqrt(np.sum(share * (place - mean[:, None]) ** 2, axis=1)) - 1
    )
    tables["spectral entropy"] = _entropy(share)
    for what, table in tables.items():
        for axis, column in zip(axes, table.T, strict=True):
            yield f"{name} {axis} {what}", column


def _together(name: str, triple: Signals) -> Iterator[Column]:
    """How the three axes move together."""
    yield f"{name} area", _size(name, np.abs(triple).sum(axis=2).mean(axis=1))
    centred = triple - triple.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.sum(centred**2, axis=1)) + _TINY
    for first, second in ((0, 1), (0, 2), (1, 2)):
        product = np.sum(centred[..., first] * centred[..., second], axis=1)
        pair = f"{'xyz'[first]}{'xyz'[second]}"
        yield f"{name} correlation {pair}", product / (spread[:, first] * spread[:, second])


def _directions(down: Signals, signals: dict[str, Signals]) -> Iterator[Column]:
    """Which way is down, and how mean movements lie to it."""
    for axis, column in zip("xyz", down.T, strict=True):
        yield f"down {axis}", column
        yield f"angle to {axis}", 1 - 2 * np.arccos(np.clip(column, -1, 1)) / np.pi
    for name in ("body", "jerk", "gyro", "gyro jerk"):
        yield f"{name} along down", np.sum(_unit(signals[name].mean(axis=1)) * down, axis=1)


def _autoregression(centred: Signals) -> Iterator[NDArray[np.float64]]:
    """Yield the Yule-Walker coefficients of order 4, by Levinson's recursion."""
    n_time = centred.shape[1]
    lags = [
        np.sum(centred[:, lag:] * centred[:, : n_time - lag], axis=1) for lag in range(AR_ORDER + 1)
    ]
    left = lags[0] + _TINY
    found: list[NDArray[np.float64]] = []
    for order in range(AR_ORDER):
        ahead = lags[order + 1] - sum(a * lags[order - i] for i, a in enumerate(found))
        reflection = ahead / left
        found = [a - reflection * b for a, b in zip(found, found[::-1], strict=True)]
        found.append(reflection)
        left = left * (1 - reflection**2) + _TINY
    yield from found


def _moment(centred: Signals, power: int) -> NDArray[np.float64]:
    spread = centred.std(axis=1) + _TINY
    moment: NDArray[np.float64] = np.mean(centred**power, axis=1) / spread**power
    return moment


def _entropy(share: Signals) -> NDArray[np.float64]:
    """Map the entropy of shares along the time axis, 0 to its largest, to [-1, 1]."""
    entropy = -np.sum(share * np.log(share + _TINY), axis=1) / np.log(share.shape[1])
    mapped: NDArray[np.float64] = 2 * entropy - 1
    return mapped


def _size(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    small, bound = SCALES[name]
    mapped: NDArray[np.float64] = 2 * np.log1p(values / small) / np.log1p(bound / small) - 1
    return mapped


def _signed(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    small, bound = SCALES[name]
    if name == "gravity":
        return values / bound
    mapped: NDArray[np.float64] = (
        np.sign(values) * np.log1p(np.abs(values) / small) / np.log1p(bound / small)
    )
    return mapped


def _unit(vectors: Signals) -> Signals:
    unit: Signals = vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) + _TINY)
    return unit
