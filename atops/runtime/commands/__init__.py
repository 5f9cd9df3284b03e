"""The commands of a stream: a file for each family, which holds all that the runtime knows of them."""
