"""The vocabulary of declarations."""
