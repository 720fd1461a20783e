"""What sessions and workers share: their rows, keys and parsing, and the two machines that fire each other.

Nothing is imported here, so that either package may come first.
"""
