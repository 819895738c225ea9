//! Many threads work on one volume, which is sound afterwards.

use crate::common::{VOLUMES, check_clean, open};

platter_testing::conformance!(threads: VOLUMES, open: open, check: check_clean);
