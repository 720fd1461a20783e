"""What the machine and the public functions cost, as ratios to the same SQL written raw."""
