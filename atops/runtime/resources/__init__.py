"""Resource bundles and reservations (TOPS Runtime API, 2.11).

bundle     a bundle, the default one, and the reservation of a device
placement  which clusters, SIPs and banks a bundle gets
memory     what is reserved for a bundle, and where it allocates
"""
