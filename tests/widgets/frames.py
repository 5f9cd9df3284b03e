"""How long a drawing may take in a test: no frame's time, as other work shares the machine. The bench measures that."""

FROZEN_MS = 500.0  # what one would call a page that hangs
BEST_DRAW_MS = "Math.min(...[1, 2, 3, 4, 5].map(() => { view.draw(); return view.drawMs; }))"  # in the page
