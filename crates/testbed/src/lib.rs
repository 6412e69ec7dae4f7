//! Testbeds: a driver, a machine and an app put together so that the bench can load them.
