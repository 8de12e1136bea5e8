"""The schema of the PostgreSQL broker: how it comes about, who may create it, what may go wrong."""
