from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidData, InvalidParameter
from confrere_research.organisations import brfss_organisations, split_by_column, split_by_sizes


def states(**counts: int) -> pd.DataFrame:
    names = np.repeat(list(counts), list(counts.values()))
    order = np.random.default_rng(5).permutation(len(names))
    return pd.DataFrame({"State": names[order]}, index=order + 1000)


class TestByColumn:
    @given(st.lists(st.sampled_from("dbca"), min_size=1, max_size=40))
    @settings(max_examples=50, deadline=None)
    def test_every_row_goes_to_its_own_organisation(self, names):
        frame = pd.DataFrame({"site": names}, index=range(100, 100 + len(names)))
        found = split_by_column(frame, "site")
        assert list(found) == sorted(set(names))
        for name, rows in found.items():
            assert rows.tolist() == [place for place, n in enumerate(names) if n == name]

    def test_categories_without_rows_are_left_out(self):
        frame = pd.DataFrame({"site": pd.Categorical(["b", "b"], categories=["a", "b"])})
        assert {name: rows.tolist() for name, rows in split_by_column(frame, "site").items()} == {
            "b": [0, 1]
        }

    def test_a_missing_column_and_a_missing_value_are_refused(self):
        frame = pd.DataFrame({"site": ["a", None]})
        with pytest.raises(InvalidParameter, match="hospital"):
            split_by_column(frame, "hospital")
        with pytest.raises(InvalidData, match="site"):
            split_by_column(frame, "site")


class TestBySizes:
    @given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 30), st.integers(0))
    @settings(max_examples=50, deadline=None)
    def test_parts_are_disjoint_and_sized(self, sizes, spare, seed):
        n_rows = sum(sizes) + spare
        parts = split_by_sizes(n_rows, sizes, seed)
        assert [len(part) for part in parts] == sizes
        rows = np.concatenate(parts)
        assert len(np.unique(rows)) == len(rows)
        assert rows.min() >= 0
        assert rows.max() < n_rows

    @pytest.mark.parametrize("sizes", [[], [0, 3], [-1], [60, 41]])
    def test_impossible_sizes_are_refused(self, sizes):
        with pytest.raises(InvalidParameter, match="sizes"):
            split_by_sizes(100, sizes, 0)


class TestStates:
    FRAME = states(Main=50, Tiny=5, Small=11, Middle=20, Large=40)

    def organise(self, seed=3, sizes=(10, 30, 4), **settings):
        return brfss_organisations(
            self.FRAME, seed, main_name="Main", main_size=40, branch_sizes=sizes, **settings
        )

    def test_the_largest_size_chooses_first_the_smallest_state_that_has_enough(self):
        found = self.organise()
        # 30 needs Large; 10 takes Small before Middle; 4 takes Tiny. Branches keep their order.
        assert {name: len(rows) for name, rows in found.branches.items()} == {
            "Small": 10,
            "Large": 30,
            "Tiny": 4,
        }
        assert list(found.branches) == ["Small", "Large", "Tiny"]

    def test_rows_come_from_the_right_state_and_the_rest_is_public(self):
        found, names = self.organise(), self.FRAME["State"].to_numpy()
        assert set(names[found.main]) == {"Main"}
        assert len(set(found.main)) == 40
        for state, rows in found.branches.items():
            assert set(names[rows]) == {state}
            assert len(set(rows)) == len(rows)
        assert set(names[found.public]) == {"Middle"}
        assert len(found.public) == 20

    def test_the_seed_samples_and_nothing_else(self):
        first, again, other = self.organise(), self.organise(), self.organise(seed=4)
        np.testing.assert_array_equal(first.main, again.main)
        assert not np.array_equal(first.main, other.main)
        assert list(first.branches) == list(other.branches)

    def test_another_branchs_size_does_not_change_a_sample(self):
        first, other = self.organise(), self.organise(sizes=(10, 31, 4))
        np.testing.assert_array_equal(first.main, other.main)
        np.testing.assert_array_equal(first.branches["Small"], other.branches["Small"])

    def test_impossible_requests_are_refused(self):
        with pytest.raises(InvalidParameter, match="branch_sizes"):
            self.organise(sizes=(30, 30))
        with pytest.raises(InvalidParameter, match="main_size"):
            brfss_organisations(self.FRAME, 0, main_name="Tiny", main_size=6, branch_sizes=(5,))
        with pytest.raises(InvalidParameter, match="main_name"):
            brfss_organisations(self.FRAME, 0, main_name="Atlantis")
