"""The contracts for other languages and for people: JSON Schema, AsyncAPI, examples, reference."""
