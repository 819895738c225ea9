//! The kit for Windows: images that Windows is to judge, and what comes back.
//!
//! `disk` makes a fixed VHD with a partition table, `tree` writes a tree that depends on a seed alone, `manifest` says
//! what is in it, `images` lists the images and makes them, `script` is what runs on Windows, and `verdict` judges what
//! it leaves.

pub mod disk;
pub mod filler;
pub mod images;
pub mod manifest;
pub mod pack;
pub mod script;
pub mod tree;
pub mod verdict;
