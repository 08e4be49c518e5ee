"""Parts in, weights out, then outputs, then scores; the room of torch."""
