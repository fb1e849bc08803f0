"""Quick forms on real data; collected only where CONFRERE_DATA says where they lie."""

from confrere_research import run_item, summarise
from confrere_research.results import differences


def test_digits_apart(tmp_path):
    records = run_item("S1", quick=True, out=tmp_path, n_jobs=2)
    assert differences("S1", records) == {}
    means = {(p.method, p.variant, p.epsilon): p.mean for p in summarise(records)}
    assert means["PST-F(W)", "corrected", 0.5] > 0.992
    assert means["PST-F(W)", "corrected", 1.0] > 0.994
    assert all(point.flips == 0 for point in summarise(records) if point.variant == "corrected")
