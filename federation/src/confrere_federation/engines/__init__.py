"""What carries messages between a coordinator and parties: the line, and NVIDIA FLARE."""
