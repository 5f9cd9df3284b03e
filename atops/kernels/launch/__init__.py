"""From a kernel and its arguments to a launch: target, geometry, arguments."""
