"""HTTP: routes, handlers, the application."""
