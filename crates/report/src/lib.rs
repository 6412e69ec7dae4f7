//! The results schema, tables, plots and the HTML report.
