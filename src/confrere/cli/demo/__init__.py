"""The main job, shown: a main hospital helps sixteen branches, each person paid for."""
