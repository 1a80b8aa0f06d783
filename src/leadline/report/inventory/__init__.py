"""What a cluster is, as a document and as an answer for programs."""
