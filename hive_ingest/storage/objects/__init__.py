"""What all object stores have: no rename, folders by the names of objects, files unseen until they are published."""
