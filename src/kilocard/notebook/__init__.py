"""What the book's notebooks import: figures, interactive figures, panels, exercises."""
