"""How different clients are, before anything is learned."""
