"""Built-in data of vertical trainings."""
