"""DeltaSource and DeltaSink."""
