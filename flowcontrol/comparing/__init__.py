"""Several systems on one scenario."""
