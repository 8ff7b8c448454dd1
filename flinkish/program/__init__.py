"""The program model: programs as plain data, recorded by the API and read by the layers below."""
