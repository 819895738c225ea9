//! What stands on disk: one type for each structure, read through checked code and written back byte for byte.
