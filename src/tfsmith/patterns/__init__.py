"""F4: finds pieces of a graph, and puts others in their place."""
