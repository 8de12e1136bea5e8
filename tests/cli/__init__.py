"""The command `bee`, as one types it."""
