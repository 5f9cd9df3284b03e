"""Resource bundles and reservations (TOPS Runtime API, 2.11).

bundle     a bundle and its memory, the default one, and the reservation of a device
placement  which clusters, SIPs and banks a bundle gets
"""
