"""Sessions: what is stored of them, and what is asked of them."""
