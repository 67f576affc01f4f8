"""The worker processes of a cluster."""
