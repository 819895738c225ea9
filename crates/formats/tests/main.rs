//! The tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs. Those
//! with long campaigns are programs of their own.

mod kept_plans;
mod last_block;
mod made_whole;
mod mirrors;
mod numbers_again;
mod recognised;
mod streams;
