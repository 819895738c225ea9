//! Most tests of this crate are modules of one program: that is compiled in a fraction of the time of many programs.

mod accessible;
mod chromium;
mod corpus;
mod diskspd;
mod endurance;
mod fio_json;
mod iometer;
mod post_004;
mod posts;
mod published;
mod regression;
mod report_document;
mod report_render;
mod sample;
mod shapes;
mod together;
mod virtual_time;
