"""The conformance suite, bound to the stores that need no server, and the proof of its teeth."""
