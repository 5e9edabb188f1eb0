"""What every transaction needs, whoever runs it: identity, locks, heartbeat, staging, publish and commit."""
