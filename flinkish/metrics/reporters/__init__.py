"""Reporters show the metrics of a process to other systems. `reporter_settings` reads which; the other modules are one each."""
