"""What is measured and what happened: samples, spans and logs, kept where they arise."""
