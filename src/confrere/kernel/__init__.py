"""What a guarantee rests on, and nothing else."""
