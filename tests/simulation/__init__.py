"""The real worker in simulated time, with everything that can go wrong, and an audit at the end."""
