"""Pure functions from a view of a job to the REST answers about it."""
