"""How commands run: a file for each family, and the table that chooses."""
