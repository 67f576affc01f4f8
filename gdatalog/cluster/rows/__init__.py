"""The rows of relations on a cluster's workers."""
