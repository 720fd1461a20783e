"""The driver's leases and tasks."""
