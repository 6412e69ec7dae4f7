//! The rows of a document for Arrow.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, StringArray};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema};
use kpps_rendering::{Column, Field, Kind, Rows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Rows for Arrow. A column's name has its unit, and a row without such a value has null there.
#[pyclass(frozen, module = "kpps._kpps")]
pub struct Batch(RecordBatch);

impl Batch {
    /// The batch of these rows.
    ///
    /// # Errors
    /// The columns are not of one length.
    pub fn of(rows: &Rows) -> Result<Self, ArrowError> {
        let column = |at: usize| {
            let fields: Vec<&Field> =
                rows.rows.iter().map(|row| row.get(at).unwrap_or(&Field::Empty)).collect();
            array(rows.columns[at].kind, &fields)
        };
        let columns: Vec<ArrayRef> = (0..rows.columns.len()).map(column).collect();
        let field = |(column, values): (&Column, &ArrayRef)| {
            arrow_schema::Field::new(&column.name, values.data_type().clone(), true)
        };
        let fields: Vec<_> = rows.columns.iter().zip(&columns).map(field).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map(Self)
    }
}

/// The column with these values.
fn array(kind: Option<Kind>, fields: &[&Field]) -> ArrayRef {
    match kind.or_else(|| Kind::of(fields.iter().copied())) {
        None => Arc::new(NullArray::new(fields.len())),
        Some(Kind::Switch) => Arc::new(fields.iter().map(|field| switch(field)).collect::<BooleanArray>()),
        Some(Kind::Whole) => Arc::new(fields.iter().map(|field| whole(field)).collect::<Int64Array>()),
        Some(Kind::Number) => Arc::new(fields.iter().map(|field| number(field)).collect::<Float64Array>()),
        Some(Kind::Text) => Arc::new(fields.iter().map(|field| text(field)).collect::<StringArray>()),
    }
}

fn switch(field: &Field) -> Option<bool> {
    if let Field::Switch(on) = field { Some(*on) } else { None }
}

fn whole(field: &Field) -> Option<i64> {
    if let Field::Whole(whole) = field { Some(*whole) } else { None }
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Number(number) => Some(*number),
        Field::Whole(whole) => Some(*whole as f64),
        _ => None,
    }
}

fn text(field: &Field) -> Option<String> {
    (*field != Field::Empty).then(|| field.to_string())
}

#[pymethods]
impl Batch {
    /// The rows as a stream of Arrow's C data interface: pyarrow, pandas, polars and duckdb read it without a
    /// copy.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Nobody has to be given another schema than there is.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<{} rows of {} columns>", self.0.num_rows(), self.0.num_columns())
    }
}

/// An error of Arrow as Python's.
pub fn in_python(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
