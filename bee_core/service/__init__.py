"""A hive as the whole of a process, or of several: what `bee worker` is made of."""
