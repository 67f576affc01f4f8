"""From a compiled program and a catalog to relations; results are kept by what they depend on."""
