"""Renderers: each a pure function from the model to text; none knows how a lifecycle is declared."""
