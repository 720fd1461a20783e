"""Hosted rooms: what each call answers, stores and refuses."""
