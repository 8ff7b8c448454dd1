"""Reporters show the metrics of a process to other systems. `settings` reads which there are; the other modules are one each."""
