"""Built-in data and models of federations."""
