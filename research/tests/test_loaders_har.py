"""Activity features: functions of one window, scaled by declared bounds."""

from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere_research.loaders import har, load_har
from confrere_research.loaders.har import BANDS, features

TIME = np.arange(64) / 50


def quiet_windows(n: int, seed: int = 0) -> np.ndarray:
    """Return windows of a telephone at rest, x down, with a little noise on every channel."""
    windows = np.random.default_rng(seed).normal(0, 0.003, (n, 64, 9))
    windows[..., :3] = windows[..., 3:6]
    windows[..., 0] += 1
    return windows.astype(np.float32)


def by_name(windows: np.ndarray) -> dict[str, np.ndarray]:
    X, names = features(windows)
    return dict(zip(names, X.T, strict=True))


class TestFeatures:
    def test_a_window_is_described_without_the_others(self):
        windows = quiet_windows(6)
        together, _ = features(windows)
        for place in range(6):
            alone, _ = features(windows[place : place + 1])
            np.testing.assert_allclose(alone[0], together[place], atol=1e-6)

    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-9, 1.0, 1e3]))
    @settings(max_examples=25, deadline=None)
    def test_any_finite_window_gives_finite_values_in_range(self, seed, size):
        windows = np.random.default_rng(seed).normal(0, 1, (2, 64, 9)) * size
        X, _ = features(windows.astype(np.float32))
        assert np.isfinite(X).all()
        assert np.abs(X).max() <= 1

    def test_a_swing_is_found_at_its_frequency(self):
        windows = quiet_windows(2)
        step = 8
        swing = 0.5 * np.sin(2 * np.pi * step * 50 / 64 * TIME)
        windows[0, :, 4] += swing
        windows[0, :, 1] += swing
        columns = by_name(windows)
        loudest = max(BANDS, key=lambda b: columns[f"body y band{b[0]}-{b[1]}"][0])
        assert loudest[0] <= step < loudest[1]
        assert columns["body y peak frequency"][0] == pytest.approx(2 * (step - 1) / 31 - 1)
        assert columns["body y sd"][0] > columns["body y sd"][1] + 0.5
        assert columns["body y spectral entropy"][0] < columns["body y spectral entropy"][1] - 0.5

    def test_autoregression_solves_the_yule_walker_equations(self):
        rng = np.random.default_rng(1)
        signal = np.zeros(64)
        for t in range(2, 64):
            signal[t] = 0.9 * signal[t - 1] - 0.5 * signal[t - 2] + rng.normal(0, 0.1)
        windows = quiet_windows(1)
        windows[0, :, 6] = signal
        centred = windows[0, :, 6].astype(float) - windows[0, :, 6].mean(dtype=float)
        lags = np.array([centred[k:] @ centred[: 64 - k] for k in range(5)])
        toeplitz = lags[np.abs(np.subtract.outer(np.arange(4), np.arange(4)))]
        expected = np.linalg.solve(toeplitz, lags[1:])
        columns = by_name(windows)
        found = [3 * columns[f"gyro x ar{order}"][0] for order in range(1, 5)]
        np.testing.assert_allclose(found, expected, atol=1e-4)


class TestLoader:
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "X_train": quiet_windows(3),
            "y_train": np.array([1, 6, 4], dtype=np.int8),
            "subject_train": np.array([1, 1, 7], dtype=np.int8),
            "X_test": quiet_windows(2, seed=1),
            "y_test": np.array([5, 2], dtype=np.int8),
            "subject_test": np.array([2, 9], dtype=np.int8),
        }

    def digest(self, arrays: dict[str, np.ndarray]) -> str:
        digest = hashlib.sha256()
        for name, array in sorted(arrays.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode() + array.tobytes())
        return digest.hexdigest()

    def test_activities_and_people(self, publish, monkeypatch, tmp_path):
        arrays, packed = self.arrays(), io.BytesIO()
        np.savez(packed, **arrays)
        file = publish(har.FILE, packed.getvalue(), sha256=self.digest(arrays), packed=False)
        monkeypatch.setattr(har, "FILE", file)
        data = load_har(tmp_path)
        assert [data.classes[label] for label in data.train.y] == ["walking", "laying", "sitting"]
        assert data.train.groups is not None
        assert data.train.groups.tolist() == [1, 1, 7]
        assert data.test is not None
        assert data.test.y.tolist() == [4, 1]
        assert data.test.X.shape == (2, len(data.feature_names))
        np.testing.assert_array_equal(data.train.X, features(arrays["X_train"])[0])

    def test_the_official_archive_is_cut_to_second_halves(self):
        arrays, inner, outer = self.arrays(), io.BytesIO(), io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            for part in ("train", "test"):
                folder = f"UCI HAR Dataset/{part}"
                for place, channel in enumerate(har.CHANNELS):
                    half = arrays[f"X_{part}"][..., place].astype(float)
                    text = io.StringIO()
                    np.savetxt(text, np.hstack([np.full_like(half, 9), half]), fmt="%.9e")
                    name = f"{folder}/Inertial Signals/{channel}_{part}.txt"
                    archive.writestr(name, text.getvalue())
                for name in ("y", "subject"):
                    lines = "\n".join(map(str, arrays[f"{name}_{part}"]))
                    archive.writestr(f"{folder}/{name}_{part}.txt", lines)
        with zipfile.ZipFile(outer, "w") as archive:
            archive.writestr("UCI HAR Dataset.zip", inner.getvalue())
        with np.load(io.BytesIO(har._half_windows(outer.getvalue()))) as found:
            assert sorted(found) == sorted(har.ARRAYS)
            for name, array in arrays.items():
                np.testing.assert_array_equal(found[name], array)
                assert found[name].dtype == array.dtype
