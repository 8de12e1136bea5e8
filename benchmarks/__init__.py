"""Measurements: run them as modules, `python -m benchmarks.run`."""
