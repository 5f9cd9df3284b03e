"""Ways of going through the schedules of a program.

strategy    what all have in common; what a step touches, and what one run keeps
sampling    at random, by few switches of priority, or one schedule again
exhaustive  all schedules, depth first, with sleep sets
dpor        those that differ in the order of steps that depend on each other
"""
