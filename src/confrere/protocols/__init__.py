"""Multi-party algorithms, each written once as coordinator and party steps."""
