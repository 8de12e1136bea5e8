"""The model test on every store, and the proof of its teeth."""
