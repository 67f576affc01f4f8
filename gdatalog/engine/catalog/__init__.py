"""What a database holds, as immutable snapshots: data, kept texts, parameters."""
