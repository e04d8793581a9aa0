"""What every page stands on: addresses, lists in pages, one rule of keeping, throttles, errors."""
