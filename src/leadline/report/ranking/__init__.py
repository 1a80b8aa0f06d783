"""Rankings and recommendations as documents, and the answers for programs."""
