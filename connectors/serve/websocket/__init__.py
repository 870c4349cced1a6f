"""Commands and subscriptions over a WebSocket: `GET /ws`."""
