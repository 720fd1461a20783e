"""Scenarios: calls of the library as data, one JSON object a line, each with what is expected of it."""
