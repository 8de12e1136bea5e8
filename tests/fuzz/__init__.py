"""Input that nobody meant: damaged envelopes, odd names and settings, foreign writes in the store.

    python -m tests.fuzz --decodes 1000000

decodes that many hostile bodies, and hands some of them to a worker. What is asked everywhere: an
answer or the one error type, soon; nothing is lost, nothing is stuck. The tests of this directory
are the short form.
"""
