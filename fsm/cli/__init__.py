"""The command line `fsm`: submitting, listing, resolving and driving the tasks of a room. Needs the extra `cli`."""
