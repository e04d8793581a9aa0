"""Every Eval Ever 0.3.0, written and read."""
