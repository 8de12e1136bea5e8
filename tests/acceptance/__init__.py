"""What a stranger does in the first minutes, done with the wheel, outside of the repository."""
