//! The kit for Windows: images that Windows is to judge, and what comes back.
//!
//! `disk` makes a fixed VHD with a partition table, `tree` writes a tree that depends on a seed alone, `manifest` says
//! what is in it, `images` lists the images and makes them, `script` is what runs on Windows, and `verdict` judges what
//! it leaves.

pub(super) mod disk;
pub(super) mod filler;
pub(super) mod images;
pub(super) mod manifest;
pub(super) mod pack;
pub(super) mod script;
pub(super) mod tree;
pub(super) mod verdict;
