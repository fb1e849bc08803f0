"""What is fast, and by how much: ``python -m benchmarks``."""
