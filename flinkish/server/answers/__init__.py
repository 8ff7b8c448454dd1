"""The types of REST answers and requests, with the names of Flink's fields."""
