"""A model that this machine runs itself: a GGUF file, an engine in a process of its own, the OpenAI adapter between them."""
