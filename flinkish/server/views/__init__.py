"""Pure functions from a look at a job to the REST answers about it."""
