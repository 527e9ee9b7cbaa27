"""Who is scored, on what, and after how much adaptation."""
