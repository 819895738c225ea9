//! Many threads work on one volume, which is sound afterwards.

use crate::common::{VOLUMES, check_clean, open};

platter_testing::conformance!(threads: [VOLUMES[0], VOLUMES[1], VOLUMES[3]], open: open, check: check_clean);
