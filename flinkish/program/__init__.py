"""The program model: what the API records of a program, as plain data, and what the layers below the API take it from."""
