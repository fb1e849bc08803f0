"""Data in, noised arrays out: one file, one theorem, one page in docs/proofs."""
