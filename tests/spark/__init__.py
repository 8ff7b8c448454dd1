"""Tests that need Java and Spark."""
