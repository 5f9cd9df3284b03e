"""Where an allocation goes: free ranges, best fit, banks and resident pages. Numbers only, no bytes."""
