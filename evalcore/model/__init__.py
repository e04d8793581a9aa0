"""Language models behind one protocol; heavy imports happen in the backends only."""
