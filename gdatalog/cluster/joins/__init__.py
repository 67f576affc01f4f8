"""Rules whose joins are spread over a cluster's workers."""
