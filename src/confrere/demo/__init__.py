"""The main job, shown: a main hospital helps sixteen branches, each person paid for."""

from confrere.demo.simulated_hospitals import SimulatedHospitals, ruijin_like

__all__ = ["SimulatedHospitals", "ruijin_like"]
