import numpy as np

from confrere.demo import ruijin_like
from confrere.demo.simulated_hospitals import RUIJIN_BRANCH_SIZES, RUIJIN_MAIN_SIZE


def test_it_has_the_published_sizes_says_that_it_is_simulated_and_follows_its_seed():
    world, again, other = map(ruijin_like, (0, 0, 1))
    assert len(world.main) == RUIJIN_MAIN_SIZE
    assert tuple(map(len, world.branches.values())) == RUIJIN_BRANCH_SIZES
    assert world.simulated is True
    assert "simulated" in repr(world)
    assert "simulated" in world.schema.note.lower()
    assert all("simulated" in name for name in world.branches)
    assert again.main.X.equals(world.main.X)
    np.testing.assert_array_equal(again.main.y, world.main.y)
    assert not other.main.X.equals(world.main.X)
