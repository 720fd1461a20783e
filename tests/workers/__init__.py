"""Workers: their executions, their receipts and what they do to their session."""
