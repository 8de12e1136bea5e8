"""A hive as a process of its own: real processes, real signals, real servers."""
