"""A node provider for Karpenter: creates and deletes NodeClaims of NodePools, and leaves machines to Karpenter's controller."""
