"""Floor 5: what the command line runs. Everything here is made of public names; nothing below imports it."""
