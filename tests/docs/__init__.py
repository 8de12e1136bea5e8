"""The documentation is run: its programs, its examples, its links and its tables."""
