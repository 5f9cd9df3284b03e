"""Modules, launches and runtime compilation: TOPS Runtime API, 2.8 to 2.10.

module                modules and their functions
rtc                   runtime compilation
launch                launches in one call
launch_configuration  launches in steps
launch_arguments      their arguments
multi_cluster         one grid of different kernels (2.11)
"""
