"""IPython magics, and failures as a notebook shows them."""
