//! The module below the Python package: it calls the command in its own process, and says what commands and
//! options there are. The package makes functions of that.

mod call;
mod engine;
mod grid;
mod policy;
mod rows;
mod table;

#[pyo3::pymodule]
mod _kpps {
    #[pymodule_export]
    use crate::call::{Called, call};
    #[pymodule_export]
    use crate::grid::{cells, keep, main};
    #[pymodule_export]
    use crate::policy::register_policy;
    #[pymodule_export]
    use crate::rows::Batch;
    #[pymodule_export]
    use crate::table::{schema, table};
}
