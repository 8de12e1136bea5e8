"""Bugs that are planted one at a time, and the proofs that have to notice every one of them.

    python -m tests.planted

prints the table: each bug, what caught it, after how many seconds. A bug is a fragment of a Redis
script, of an SQL function or of the worker's source, and what stands there instead. Files stay as
they are: the altered text goes to a prefix, a schema or a process of its own. Mutants of the memory
broker are in `tests/conformance/mutants`.
"""
