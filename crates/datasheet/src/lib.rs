//! Registers, descriptors, chips and errata of the Intel 8254x family.
