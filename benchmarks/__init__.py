"""Measurements: run them as modules, `python -m benchmarks.drain`."""
