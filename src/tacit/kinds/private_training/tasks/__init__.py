"""Built-in data and models of private trainings."""
