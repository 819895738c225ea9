//! The messages of a mount.

use std::sync::Arc;

/// Receives messages for the administrator of the machine, one sentence each.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;
