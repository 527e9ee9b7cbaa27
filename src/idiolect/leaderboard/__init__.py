"""The leaderboard: every algorithm of the catalog on a fixed set of problems, under one protocol of fairness."""
