"""The documentation: pages, and what generates parts of them from the code."""
