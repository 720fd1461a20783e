"""A declaration, running."""
