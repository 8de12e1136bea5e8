"""The JSON Schema of job types, and whether jobs of one are read by another."""

from bee_core.schema.compare import compare
from bee_core.schema.limits import Change
from bee_core.schema.shape import DIALECT, Schema, schema_of

__all__ = ["DIALECT", "Change", "Schema", "compare", "schema_of"]
