"""Built-in data and networks of split trainings."""
