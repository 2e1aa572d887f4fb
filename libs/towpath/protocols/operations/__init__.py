"""Tables of the operations that change jobs at their site: each module registers its own."""
