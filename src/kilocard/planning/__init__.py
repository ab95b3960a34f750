"""From a target and a baseline to a plan: how many cards, which, how laid out, where, for how much."""
