"""What real processes do to each other, and what SIGKILL does to one of them."""
