//! The Python interface of Platter. `platterfs/_platter.pyi` has the types of what is here; the Python modules beside that
//! file extend some of the classes.

mod copy;
mod device;
mod errors;
mod keys;
mod mirror;
mod report;
mod scrub;
mod undo;
mod values;
mod volume;

use pyo3::prelude::*;

#[pymodule]
fn _platter(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<volume::Volume>()?;
    module.add_class::<volume::Handle>()?;
    module.add_class::<volume::Walk>()?;
    module.add_class::<values::Stat>()?;
    module.add_class::<values::Entry>()?;
    module.add_class::<values::Stream>()?;
    module.add_class::<values::Info>()?;
    module.add_class::<copy::Copied>()?;
    module.add_class::<report::Finding>()?;
    module.add_class::<report::CheckReport>()?;
    module.add_class::<report::Recovered>()?;
    module.add_function(wrap_pyfunction!(report::check, module)?)?;
    module.add_function(wrap_pyfunction!(report::mkfs, module)?)?;
    module.add_function(wrap_pyfunction!(report::recover, module)?)?;
    module.add_class::<scrub::Damaged>()?;
    module.add_class::<scrub::ScrubReport>()?;
    module.add_class::<mirror::MirrorCopy>()?;
    module.add_class::<mirror::MirrorStatus>()?;
    module.add_class::<undo::Undone>()?;
    module.add_function(wrap_pyfunction!(scrub::scrub, module)?)?;
    module.add_function(wrap_pyfunction!(mirror::mirror_status, module)?)?;
    module.add_function(wrap_pyfunction!(mirror::mirror_rebuild, module)?)?;
    module.add_function(wrap_pyfunction!(mirror::mirror_add, module)?)?;
    module.add_function(wrap_pyfunction!(mirror::mirror_drop, module)?)?;
    module.add_function(wrap_pyfunction!(undo::undo, module)?)?;
    Ok(())
}
